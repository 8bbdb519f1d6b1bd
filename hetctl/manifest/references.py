"""What the names in a manifest refer to, with defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hetctl.manifest.cluster import Cluster
from hetctl.manifest.nodes import Paths, Ssh
from hetctl.manifest.placements import Placement


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
        ssh: How to log in.
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

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes it touches: the head first, then the others by first device."""
        return tuple(dict.fromkeys((self.head, *(device.node for device in self.devices))))


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
