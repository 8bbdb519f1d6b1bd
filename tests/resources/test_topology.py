from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hetctl.manifest.references import DeviceKind
from hetctl.resources.topology import (
    FIRST_PORT,
    LOOPBACK,
    Device,
    arrange,
    choose_ports,
    visibility_environment,
    worker_device_names,
)


def gpu(node: str, name: str, backend: str = "cuda", identity: str = "") -> Device:
    return Device(f"{node}/{name}", node, name, DeviceKind.GPU, backend=backend, identity=identity)


def pool(node: str, name: str) -> Device:
    return Device(f"{node}/{name}", node, name, DeviceKind.CPU_WORKER, threads=2)


ADDRESSES = {"atlas": "10.0.0.5", "pascal": "10.0.0.6", "bench": "10.0.0.7"}


def ports(devices: list[Device], head: str) -> dict[str, int]:
    return {
        worker: 20052 + index
        for index, worker in enumerate(
            dict.fromkeys(
                f"worker/chat@{device.node}"
                + (f".{device.name}" if device.kind is DeviceKind.CPU_WORKER else "")
                for device in devices
                if device.node != head or device.kind is DeviceKind.CPU_WORKER
            )
        )
    }


def test_cards_of_the_head_are_local_and_others_are_numbered_through_their_endpoints() -> None:
    devices = [gpu("pascal", "old"), gpu("atlas", "fast"), pool("bench", "left"), gpu("pascal", "second")]
    topology = arrange(
        placement="chat",
        head="atlas",
        devices=devices,
        listen_addresses=ADDRESSES,
        ports=ports(devices, "atlas"),
    )
    assert [worker.address for worker in topology.workers] == ["worker/chat@pascal", "worker/chat@bench.left"]
    assert [worker.endpoint for worker in topology.workers] == ["10.0.0.6:20052", "10.0.0.7:20053"]
    # pascal is the first endpoint and lends two cards, so bench's device is the third
    assert topology.device_names == ("RPC0", "CUDA0", "RPC2", "RPC1")
    assert worker_device_names(topology.workers[0]) == ("CUDA0", "CUDA1")
    assert topology.nodes == ("atlas", "pascal", "bench")


def test_workers_on_the_heads_own_node_listen_on_loopback_only() -> None:
    devices = [pool("atlas", "left"), pool("atlas", "right")]
    topology = arrange(
        placement="chat",
        head="atlas",
        devices=devices,
        listen_addresses=ADDRESSES,
        ports=ports(devices, "atlas"),
    )
    assert [worker.listen for worker in topology.workers] == [LOOPBACK, LOOPBACK]
    assert worker_device_names(topology.workers[0]) == ("CPU",)


def test_the_heads_own_cpu_is_no_worker_and_no_device() -> None:
    topology = arrange(
        placement="chat",
        head="atlas",
        devices=[Device("atlas/cpu", "atlas", "cpu", DeviceKind.HEAD_CPU)],
        listen_addresses=ADDRESSES,
        ports={},
    )
    assert topology.workers == ()
    assert topology.device_names == ("",)
    assert not topology.offloads


def test_processes_see_only_their_cards_in_manifest_order() -> None:
    devices = [gpu("atlas", "b", identity="GPU-2"), gpu("atlas", "a", identity="GPU-1")]
    assert visibility_environment(devices) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-2,GPU-1",
    }


workers = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 5)), unique=True, min_size=1, max_size=12
)


@given(
    workers,
    st.dictionaries(st.integers(0, 11), st.integers(FIRST_PORT, FIRST_PORT + 6)),
    st.dictionaries(st.integers(0, 11), st.integers(FIRST_PORT, FIRST_PORT + 6)),
    st.frozensets(st.integers(FIRST_PORT, FIRST_PORT + 6)),
)
def test_no_two_workers_of_a_node_share_a_port_and_recorded_ones_stay(
    names: list[tuple[str, int]],
    declared_by_index: dict[int, int],
    recorded_by_index: dict[int, int],
    busy: frozenset[int],
) -> None:
    wanted = [(f"worker/p{index}@{node}", node) for node, index in names]
    declared: dict[str, int] = {}
    for index, port in declared_by_index.items():
        if index < len(wanted):
            address, node = wanted[index]
            on_node = {declared[other] for other, place in wanted if place == node and other in declared}
            if port not in on_node:
                declared[address] = port
    recorded = {wanted[index][0]: port for index, port in recorded_by_index.items() if index < len(wanted)}
    chosen = choose_ports(
        wanted, declared=declared, recorded=recorded, taken=dict.fromkeys(["a", "b", "c"], busy)
    )
    assert set(chosen) == {address for address, _ in wanted}
    pairs = [(node, chosen[address]) for address, node in wanted]
    assert len(set(pairs)) == len(pairs)
    for address, node in wanted:
        if address in declared:
            assert chosen[address] == declared[address]
        elif address in recorded and not any(
            chosen[other] == recorded[address]
            for other, place in wanted
            if place == node and other != address
        ):
            assert chosen[address] == recorded[address]
        elif address not in recorded:
            assert chosen[address] not in busy
