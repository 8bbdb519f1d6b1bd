"""What one node says about itself, parsed from the agent's raw answer."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NetworkAddress:
    """One address of one interface.

    Arguments:
        interface: Kernel name such as `eth0`.
        address: Dotted IPv4 or IPv6 text.
        prefix: Length of the network part in bits.
    """

    interface: str
    address: str
    prefix: int

    @property
    def is_ipv4(self) -> bool:
        """True for a dotted IPv4 address."""
        return ipaddress.ip_address(self.address).version == 4  # noqa: PLR2004 - the protocol's number


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that accepts TCP connections.

    Arguments:
        address: Where it listens; `0.0.0.0` or `::` for everywhere.
        port: 1 to 65535.
        pid: Its process, 0 when it could not be found.
        executable: What that process runs; empty when unknown.
        unit: The systemd unit it belongs to; empty when none.
    """

    address: str
    port: int
    pid: int
    executable: str
    unit: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A program found on the node.

    Arguments:
        path: Absolute path.
        version: First line of what it says about its version; empty when it says none.
    """

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system that holds a path, and the way there.

    Arguments:
        total: Its size in bytes.
        free: Bytes that may be written.
        closed: A directory on the way that other users than its owner may not pass; empty for none.
        noexec: No program may be run from it.
    """

    total: int
    free: int
    closed: str = ""
    noexec: bool = False


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Everything read from one node in one go.

    Arguments:
        hostname: As the kernel has it.
        machine_id: Contents of /etc/machine-id; empty when there is none.
        boot_id: Changes with each boot.
        architecture: As `uname -m` says, such as `x86_64`.
        operating_system: The `PRETTY_NAME` of os-release.
        glibc: Version such as `2.36`; empty when the C library is another.
        init: Name of PID 1's program.
        cpu_model: As /proc/cpuinfo names it.
        cpu_flags: Instruction set extensions as /proc/cpuinfo names them.
        cpu_cores: Cores this system may use.
        memory_total: Bytes.
        memory_available: Bytes that can be had without swapping.
        addresses: Of all interfaces that are up, loopback included.
        listeners: Open TCP ports.
        tools: Programs by name; only those found.
        disks: Room by the path that was asked for.
        groups: Names of the groups that exist.
        salt: Key for secret fingerprints in hex; empty before the first apply.
    """

    hostname: str
    machine_id: str
    boot_id: str
    architecture: str
    operating_system: str
    glibc: str
    init: str
    cpu_model: str
    cpu_flags: frozenset[str]
    cpu_cores: int
    memory_total: int
    memory_available: int
    addresses: tuple[NetworkAddress, ...]
    listeners: tuple[Listener, ...]
    tools: Mapping[str, Tool]
    disks: Mapping[str, Disk]
    groups: frozenset[str]
    salt: str

    @property
    def has_systemd(self) -> bool:
        """True when systemd runs the node."""
        return self.init == "systemd"


def parse_node_facts(raw: Mapping[str, Any]) -> NodeFacts:
    """Return the typed form of the agent's `facts` answer.

    Arguments:
        raw: The answer. Keys that are missing or null count as "not there", never as a value.
    """
    cpu = raw.get("cpu") or {}
    memory = raw.get("memory") or {}
    release = raw.get("os_release") or {}
    return NodeFacts(
        hostname=raw.get("hostname") or "",
        machine_id=raw.get("machine_id") or "",
        boot_id=raw.get("boot_id") or "",
        architecture=raw.get("architecture") or "",
        operating_system=release.get("PRETTY_NAME") or release.get("NAME") or "",
        glibc=raw.get("glibc") or "",
        init=raw.get("pid1") or "",
        cpu_model=cpu.get("model") or "",
        cpu_flags=frozenset(cpu.get("flags") or ()),
        cpu_cores=int(cpu.get("cores") or 0),
        memory_total=int(memory.get("total") or 0),
        memory_available=int(memory.get("available") or 0),
        addresses=tuple(
            NetworkAddress(row["interface"], row["address"], int(row["prefix"]))
            for row in raw.get("addresses") or ()
        ),
        listeners=parse_listeners(raw.get("listeners") or ()),
        tools={
            name: Tool(tool["path"], tool.get("version") or "")
            for name, tool in (raw.get("tools") or {}).items()
            if tool and tool.get("path")
        },
        disks={
            path: Disk(
                int(disk["total"]),
                int(disk["free"]),
                closed=str(disk.get("closed") or ""),
                noexec=bool(disk.get("noexec")),
            )
            for path, disk in (raw.get("disks") or {}).items()
            if disk
        },
        groups=frozenset(raw.get("groups") or ()),
        salt=raw.get("salt") or "",
    )


def parse_listeners(rows: Any) -> tuple[Listener, ...]:
    """Return the typed form of a list of listening sockets as the agent reports them."""
    return tuple(
        Listener(
            address=row["address"],
            port=int(row["port"]),
            pid=int(row.get("pid") or 0),
            executable=row.get("exe") or "",
            unit=row.get("unit") or "",
        )
        for row in rows
    )
