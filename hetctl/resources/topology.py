"""Who runs what: the processes of a placement, their endpoints, device names and layers.

A pure step between the resolved manifest and the rendered units. The order of everything follows the order
of `devices` in the manifest; upstream defaults decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetctl.manifest.references import DeviceKind

FIRST_PORT = 20052
"""Below the ephemeral range of Linux (32768 on), where any outgoing connection could hold the port."""

LAST_PORT = 29999

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Device:
    """One entry of a placement's `devices`.

    Arguments:
        reference: As written, such as `atlas/fast`.
        node: Where it is.
        name: Its name on that node.
        kind: What it is.
        backend: For a GPU the llama.cpp backend that drives it, such as `cuda`.
        identity: For a GPU what selects it for its driver, a UUID for instance.
        threads: For a CPU worker the number of its threads.
    """

    reference: str
    node: str
    name: str
    kind: DeviceKind
    backend: str = ""
    identity: str = ""
    threads: int = 0


@dataclass(frozen=True, slots=True)
class Worker:
    """One ggml RPC server.

    Arguments:
        address: Resource address, `worker/<placement>@<node>[.<part>]`.
        node: Where it runs.
        part: Name of the CPU worker; empty for the worker of a node's GPUs.
        listen: IPv4 address it listens on and the head connects to.
        port: Its port.
        devices: What it serves, in its own numbering.
    """

    address: str
    node: str
    part: str
    listen: str
    port: int
    devices: tuple[Device, ...]

    @property
    def endpoint(self) -> str:
        """`address:port` as llama.cpp takes it."""
        return f"{self.listen}:{self.port}"


@dataclass(frozen=True, slots=True)
class Topology:
    """The processes of one placement.

    Arguments:
        placement: Its name.
        head: Node of the llama-server process.
        workers: RPC servers in the order the head is told of them.
        devices: As declared.
        device_names: For each device the name the head knows it by; empty strings for the head's own CPU.
    """

    placement: str
    head: str
    workers: tuple[Worker, ...]
    devices: tuple[Device, ...]
    device_names: tuple[str, ...]

    @property
    def offloads(self) -> bool:
        """False when everything runs on the head's own CPU."""
        return any(device.kind is not DeviceKind.HEAD_CPU for device in self.devices)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node that takes part, the head first."""
        return tuple(dict.fromkeys([self.head, *(worker.node for worker in self.workers)]))


BACKEND_DEVICE_PREFIX: Mapping[str, str] = {
    "cuda": "CUDA",
    "hip": "ROCm",
    "sycl": "SYCL",
    "vulkan": "Vulkan",
    "cpu": "CPU",
}
"""How each backend's registry names its devices (ggml/src/ggml-*/ at b11434)."""


def worker_address(placement: str, node: str, part: str = "") -> str:
    """Return the resource address of a worker."""
    return f"worker/{placement}@{node}" + (f".{part}" if part else "")


def arrange(
    *,
    placement: str,
    head: str,
    devices: Sequence[Device],
    listen_addresses: Mapping[str, str],
    ports: Mapping[str, int],
) -> Topology:
    """Return the processes of a placement.

    Arguments:
        placement: Its name.
        head: Node of the server.
        devices: As declared, in order.
        listen_addresses: For each node the IPv4 address its workers listen on.
        ports: For each worker address its port.

    One worker serves all GPUs a placement uses on a node; each CPU worker is its own process, on the head's
    node too. GPUs on the head's node are local. Workers on the head's node listen on loopback only.
    RPC devices are numbered through the endpoints in their order: ggml-rpc.cpp registers one per index.
    """
    members: dict[str, list[Device]] = {}
    for device in devices:
        if device.kind is DeviceKind.CPU_WORKER:
            members.setdefault(worker_address(placement, device.node, device.name), []).append(device)
        elif device.kind is DeviceKind.GPU and device.node != head:
            members.setdefault(worker_address(placement, device.node), []).append(device)
    workers = tuple(
        Worker(
            address=address,
            node=group[0].node,
            part=group[0].name if group[0].kind is DeviceKind.CPU_WORKER else "",
            listen=LOOPBACK if group[0].node == head else listen_addresses[group[0].node],
            port=ports[address],
            devices=tuple(group),
        )
        for address, group in members.items()
    )
    names: dict[str, str] = {}
    remote = 0
    for worker in workers:
        for device in worker.devices:
            names[device.reference] = f"RPC{remote}"
            remote += 1
    local: dict[str, int] = {}
    for device in devices:
        if device.kind is DeviceKind.GPU and device.node == head:
            index = local.setdefault(device.backend, 0)
            names[device.reference] = f"{BACKEND_DEVICE_PREFIX[device.backend]}{index}"
            local[device.backend] = index + 1
    return Topology(
        placement=placement,
        head=head,
        workers=workers,
        devices=tuple(devices),
        device_names=tuple(names.get(device.reference, "") for device in devices),
    )


def worker_device_names(worker: Worker) -> tuple[str, ...]:
    """Return the names a worker's own registry gives its devices, in order."""
    counts: dict[str, int] = {}
    names = []
    for device in worker.devices:
        if device.kind is DeviceKind.CPU_WORKER:
            names.append("CPU")
            continue
        index = counts.get(device.backend, 0)
        names.append(f"{BACKEND_DEVICE_PREFIX[device.backend]}{index}")
        counts[device.backend] = index + 1
    return tuple(names)


def choose_ports(
    wanted: Sequence[tuple[str, str]],
    *,
    declared: Mapping[str, int],
    recorded: Mapping[str, int],
    taken: Mapping[str, frozenset[int]],
) -> dict[str, int]:
    """Return a port for each worker.

    Arguments:
        wanted: Worker address and node of each worker, in manifest order.
        declared: Ports the manifest fixes, by worker address.
        recorded: Ports the nodes remember, by worker address.
        taken: For each node the ports that others use: foreign listeners, other clusters, declared servers.

    A declared port wins, then the recorded one as long as nobody else declares it, then the lowest free one
    from 20052.
    """
    result: dict[str, int] = {}
    used: dict[str, set[int]] = {}
    for address, node in wanted:
        if address in declared:
            result[address] = declared[address]
            used.setdefault(node, set()).add(declared[address])
    for address, node in wanted:
        port = recorded.get(address)
        if address not in result and port is not None and port not in used.get(node, set()):
            result[address] = port
            used.setdefault(node, set()).add(port)
    for address, node in wanted:
        if address in result:
            continue
        busy = used.setdefault(node, set()) | taken.get(node, frozenset())
        port = next(port for port in range(FIRST_PORT, LAST_PORT + 1) if port not in busy)
        result[address] = port
        used[node].add(port)
    return result


def visibility_environment(devices: Sequence[Device]) -> dict[str, str]:
    """Return the variables that let a process see only its declared GPUs, in manifest order.

    The CUDA and ROCm runtimes take UUIDs (NVIDIA's and AMD's documentation of these variables). PCI order
    makes CUDA ordinals independent of which card is faster. Other backends count cards in an order of their
    own, which only the node can tell.
    """
    by_backend: dict[str, list[str]] = {}
    for device in devices:
        if device.kind is DeviceKind.GPU and device.identity:
            by_backend.setdefault(device.backend, []).append(device.identity)
    result: dict[str, str] = {}
    if "cuda" in by_backend:
        result["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        result["CUDA_VISIBLE_DEVICES"] = ",".join(by_backend["cuda"])
    if "hip" in by_backend:
        result["ROCR_VISIBLE_DEVICES"] = ",".join(by_backend["hip"])
    return result
