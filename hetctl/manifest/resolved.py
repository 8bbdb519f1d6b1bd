"""A cluster whose names are looked up: the values that everything behind the manifest works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hetctl.manifest.cluster import Cluster
from hetctl.manifest.nodes import CpuWorker, Gpu, Paths, Ssh
from hetctl.manifest.placements import Placement
from hetctl.manifest.secrets import SecretRef

HEAD_CPU = "cpu"
"""Name of the head's own CPU in `devices`, and of its share in `layers`."""


class DeviceKind(StrEnum):
    """What computes."""

    GPU = "gpu"
    CPU_WORKER = "cpu-worker"
    HEAD_CPU = "head-cpu"


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """One device of a placement.

    Arguments:
        text: As written, `atlas/fast`; what `layers` and other keys call it.
        node: Node or virtual machine it is on.
        kind: What it is.
        name: Its name there; `cpu` for the head's own CPU.
    """

    text: str
    node: str
    kind: DeviceKind
    name: str


@dataclass(frozen=True, slots=True)
class ResolvedNode:
    """A machine that can run llama.cpp.

    Arguments:
        name: Its name.
        local: True when it is the machine hetctl runs on.
        address: What SSH connects to; empty for a local node without address.
        rpc_address: IPv4 address for RPC; None when only the connection can tell.
        ssh: How to log in; the key file's path does not depend on the working directory.
        paths: Where large things go.
        env: Environment of its llama.cpp processes.
        vm: True for a virtual machine.
    """

    name: str
    local: bool
    address: str
    rpc_address: str | None
    ssh: Ssh
    paths: Paths
    env: Mapping[str, str]
    vm: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedPlacement:
    """A placement whose names are looked up and whose defaults are filled in.

    Arguments:
        name: Its name.
        placement: As declared.
        devices: In order.
        head: Node of llama-server.
        build: Name of the build.
        model: Name of the model.
        listen: Addresses of the server; empty when only the connection to the head can tell.
        port: Port of the server.
        alias: Model name in the API.
        api_keys: API keys by who has them; files with paths that do not depend on the working directory.
    """

    name: str
    placement: Placement
    devices: tuple[DeviceRef, ...]
    head: str
    build: str
    model: str
    listen: tuple[str, ...]
    port: int
    alias: str
    api_keys: Mapping[str, SecretRef]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes it touches: the head first, then the others by first device."""
        return tuple(dict.fromkeys((self.head, *(device.node for device in self.devices))))

    @property
    def workers(self) -> Mapping[tuple[str, str], tuple[DeviceRef, ...]]:
        """Its RPC workers by (node, name of the CPU worker or empty), in order of first appearance.

        All cards of a node share one worker; cards on the head's node have none.
        """
        found: dict[tuple[str, str], tuple[DeviceRef, ...]] = {}
        for device in self.devices:
            if device.kind is DeviceKind.CPU_WORKER:
                found[(device.node, device.name)] = (device,)
            elif device.kind is DeviceKind.GPU and device.node != self.head:
                found[(device.node, "")] = (*found.get((device.node, ""), ()), device)
        return found


@dataclass(frozen=True, slots=True)
class Resolved:
    """A cluster with its references looked up.

    Arguments:
        cluster: As declared.
        nodes: Every machine by name, virtual machines included.
        placements: Every placement by name.
        models: Model file on the operator's machine, by model name.
        archives: Source archive on the operator's machine, by build name.
    """

    cluster: Cluster
    nodes: Mapping[str, ResolvedNode]
    placements: Mapping[str, ResolvedPlacement]
    models: Mapping[str, Path]
    archives: Mapping[str, Path]

    def gpu(self, device: DeviceRef) -> Gpu:
        """Return the declaration of a card; KeyError for other devices."""
        return gpus_of(self.cluster, device.node)[device.name]

    def cpu_worker(self, device: DeviceRef) -> CpuWorker:
        """Return the declaration of a CPU worker; KeyError for other devices."""
        return self.cluster.host(device.node).cpu_workers[device.name]


def gpus_of(cluster: Cluster, host: str) -> Mapping[str, Gpu]:
    """Return the cards that a machine's own llama.cpp can use, in order of declaration."""
    if host in cluster.nodes:
        return {name: gpu for name, gpu in cluster.nodes[host].gpus.items() if gpu.use == "serve"}
    vm = cluster.vms[host]
    below = cluster.nodes[vm.on].gpus if vm.on in cluster.nodes else {}
    return {name: below[name] for name in vm.gpus if name in below}


def devices_of(cluster: Cluster, host: str) -> dict[str, DeviceRef]:
    """Return the cards and CPU workers of a machine by name."""
    kinds = dict.fromkeys(gpus_of(cluster, host), DeviceKind.GPU)
    kinds |= dict.fromkeys(cluster.host(host).cpu_workers, DeviceKind.CPU_WORKER)
    return {name: DeviceRef(f"{host}/{name}", host, kind, name) for name, kind in kinds.items()}
