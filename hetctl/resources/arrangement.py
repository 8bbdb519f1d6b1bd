"""Where the processes of all placements run, listen and come from: manifest and facts put together. Pure.

What the manifest leaves open, a worker's port for one, is decided once, recorded on the nodes and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hetctl.errors import Position
from hetctl.facts.node import NodeFacts
from hetctl.fit.model import Model
from hetctl.manifest.references import DeviceKind, Resolved, ResolvedPlacement
from hetctl.manifest.secrets import SecretRef
from hetctl.resources import layout
from hetctl.resources.base import Mark
from hetctl.resources.provider import Survey
from hetctl.resources.reading import NodeReading
from hetctl.resources.topology import (
    LOOPBACK,
    Device,
    Topology,
    Worker,
    arrange,
    choose_ports,
    worker_address,
)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What placing a model needs to know of it.

    Arguments:
        model: What its header says.
        size: Of the file, in bytes.
    """

    model: Model
    size: int

    @property
    def block_count(self) -> int:
        """Repeating layers, prediction layers included."""
        return self.model.block_count


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the desired state follows from.

    Arguments:
        resolved: The manifest with its references looked up.
        survey: What the nodes said.
        shapes: What the header of each model says.
        digests: sha256 of each model file and each source archive, by path.
        rpc_headers: Text of each build's ggml-rpc.h.
        scripts: Content of the scripts that units run, by name.
        operator: Reads the operator's machine; called only when it has to compile.
        secret: Resolves a secret reference.
        states: By placement `running` or `stopped`, where a command asks for something else than the
            manifest and the nodes say.
    """

    resolved: Resolved
    survey: Survey
    shapes: Mapping[str, ModelShape]
    digests: Mapping[Path, str]
    rpc_headers: Mapping[str, str]
    scripts: Mapping[str, str]
    operator: Callable[[], NodeFacts]
    secret: Callable[[SecretRef], str]
    states: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster(self) -> str:
        """Name of the cluster."""
        name: str = self.resolved.cluster.name
        return name

    def reading(self, node: str) -> NodeReading | None:
        """Return what a node said; None when it did not."""
        found: NodeReading | None = self.survey.readings.get(node)
        return found

    def position(self, *path: str | int) -> Position:
        """Return where the manifest says something."""
        return self.resolved.cluster.source.position(path)

    def marks(self) -> list[Mark]:
        """Return all marks of this cluster on nodes that could be read."""
        return [mark for reading in self.survey.readings.values() for mark in reading.marks.values()]

    def program(self, node: str, name: str, usual: str) -> str:
        """Return where a node has a program; `usual`, where Debian has it, while the node was not read."""
        reading = self.reading(node)
        tool = reading.facts.tools.get(name) if reading is not None else None
        return tool.path if tool is not None else usual

    def paths(self, node: str) -> layout.NodePaths:
        """Return a node's directories."""
        paths = self.resolved.nodes[node].paths
        return layout.NodePaths(builds=paths.builds, models=paths.models, cache=paths.cache)


def declared_devices(inputs: Inputs, item: ResolvedPlacement) -> list[Device]:
    """Return a placement's devices in order, with what starts them."""
    devices = []
    for reference in item.devices:
        host = inputs.resolved.cluster.host(reference.node)
        device = Device(reference.text, reference.node, reference.name, reference.kind)
        if reference.kind is DeviceKind.CPU_WORKER:
            reading = inputs.reading(reference.node)
            cores = reading.facts.cpu_cores if reading else 0
            device = replace(device, threads=host.cpu_workers[reference.name].threads or cores)
        elif reference.kind is DeviceKind.GPU:
            gpu = inputs.resolved.gpu(reference)
            device = replace(
                device, backend=gpu.backend or "cuda", identity=gpu.match.uuid or gpu.match.pci or ""
            )
        devices.append(device)
    return devices


def listen_address(inputs: Inputs, node: str) -> str:
    """Return the address a node's workers listen on; for a node that did not answer the recorded one."""
    resolved = inputs.resolved.nodes[node]
    if resolved.rpc_address:
        return resolved.rpc_address
    if resolved.local:
        return LOOPBACK
    reading = inputs.reading(node)
    if reading is not None:
        return reading.peer_address
    for mark in inputs.marks():
        for worker in mark.spec.get("workers", []) if mark.kind == "server" else []:
            if worker["node"] == node and worker["listen"] != LOOPBACK:
                return str(worker["listen"])
    return resolved.address


def topologies(inputs: Inputs) -> dict[str, Topology]:
    """Return the processes of every placement, by its name."""
    wanted: list[tuple[str, str]] = []
    declared: dict[str, int] = {}
    devices = {name: declared_devices(inputs, item) for name, item in inputs.resolved.placements.items()}
    for name, item in inputs.resolved.placements.items():
        for device in devices[name]:
            address = _worker_of(name, device, item.head)
            if address and (address, device.node) not in wanted:
                wanted.append((address, device.node))
                if item.placement.rpc.port is not None:
                    declared[address] = item.placement.rpc.port
    ports = choose_ports(
        wanted, declared=declared, recorded=_recorded_ports(inputs), taken=_taken_ports(inputs)
    )
    return {
        name: arrange(
            placement=name,
            head=item.head,
            devices=devices[name],
            listen_addresses={node: listen_address(inputs, node) for node in item.nodes},
            ports=ports,
        )
        for name, item in inputs.resolved.placements.items()
    }


def _worker_of(placement: str, device: Device, head: str) -> str:
    if device.kind is DeviceKind.CPU_WORKER:
        return worker_address(placement, device.node, device.name)
    return (
        worker_address(placement, device.node)
        if device.kind is DeviceKind.GPU and device.node != head
        else ""
    )


def _recorded_ports(inputs: Inputs) -> dict[str, int]:
    ports: dict[str, int] = {}
    for mark in inputs.marks():
        if mark.kind == "server":
            ports |= {worker["address"]: int(worker["port"]) for worker in mark.spec["workers"]}
    return ports | {mark.address: int(mark.spec["port"]) for mark in inputs.marks() if mark.kind == "worker"}


def _taken_ports(inputs: Inputs) -> dict[str, frozenset[int]]:
    taken: dict[str, set[int]] = {node: set() for node in inputs.resolved.nodes}
    for item in inputs.resolved.placements.values():
        taken[item.head].add(item.port)
    for node, reading in inputs.survey.readings.items():
        ports = taken.setdefault(node, set())
        ports |= {listener.port for listener in reading.facts.listeners if not layout.is_ours(listener.unit)}
        ports |= {int(mark.spec["port"]) for mark in reading.foreign if "port" in mark.spec}
        ports |= {int(mark.spec["port"]) for mark in reading.marks.values() if mark.kind == "worker"}
    return {node: frozenset(ports) for node, ports in taken.items()}


def source_address(inputs: Inputs, head: str, worker: Worker) -> str:
    """Return the address a head's packets to a worker come from."""
    reading = inputs.reading(head)
    if reading is not None and reading.sources.get(worker.listen):
        return reading.sources[worker.listen]
    return listen_address(inputs, head)
