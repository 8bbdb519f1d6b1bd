"""Who listens on which TCP port, read from /proc."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from hetctl.agent import arguments as arg
from hetctl.agent.services import executable_of

if TYPE_CHECKING:
    from hetctl.agent.context import Context

ESTABLISHED, CLOSE_WAIT, LISTEN = 0x01, 0x08, 0x0A
"""TCP states as /proc/net/tcp writes them (include/net/tcp_states.h)."""


class Endpoint(NamedTuple):
    """One TCP socket of the node."""

    address: str
    port: int
    peer_address: str
    peer_port: int
    state: int
    inode: int


def parse_address(text: str) -> tuple[str, int]:
    """Return address and port of a field of /proc/net/tcp or tcp6: 32-bit words in host order."""
    words, port = text.split(":")
    raw = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6  # noqa: PLR2004 - bytes of an IPv4 address
    return socket.inet_ntop(family, raw), int(port, 16)


def parse_table(text: str) -> list[Endpoint]:
    """Return the sockets in the text of /proc/net/tcp or tcp6."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        found.append(
            Endpoint(*parse_address(fields[1]), *parse_address(fields[2]), int(fields[3], 16), int(fields[9]))
        )
    return found


def endpoints(context: Context) -> list[Endpoint]:
    """Return every TCP socket of the node, both families."""
    found = []
    for name in ("tcp", "tcp6"):
        try:
            with open(context.path(f"/proc/net/{name}"), encoding="ascii") as file:
                found += parse_table(file.read())
        except FileNotFoundError:  # a kernel without IPv6 has no tcp6
            if name == "tcp":
                raise
    return found


def socket_owners(context: Context, inodes: set[int]) -> dict[int, list[int | None]]:
    """Return the processes that hold each of the sockets open."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    owners: dict[int, list[int | None]] = {}
    processes = context.path("/proc")
    for name in os.listdir(processes) if wanted else []:
        if not name.isdigit():
            continue
        directory = f"{processes}/{name}/fd"
        try:
            descriptors = os.listdir(directory)
        except OSError:
            continue  # it ended, or it is not ours to look into
        for descriptor in descriptors:
            try:
                inode = wanted.get(os.readlink(f"{directory}/{descriptor}"))
            except OSError:
                continue
            if inode is not None and int(name) not in owners.setdefault(inode, []):
                owners[inode].append(int(name))
    return owners


def parse_unit(text: str) -> str | None:
    """Return the systemd unit in the text of /proc/PID/cgroup: the last component that names one."""
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        if controllers == "name=systemd" or (number == "0" and not controllers):
            for part in reversed(path.split("/")):
                if part.endswith((".service", ".scope", ".socket")):
                    return part
    return None


def unit_of(context: Context, pid: int) -> str | None:
    """Return the systemd unit a process belongs to."""
    try:
        with open(context.path(f"/proc/{pid}/cgroup"), encoding="utf-8", errors="replace") as file:
            return parse_unit(file.read())
    except OSError:
        return None


def command_of(context: Context, pid: int) -> list[str]:
    """Return the command line of a process; empty when it cannot be read."""
    try:
        with open(context.path(f"/proc/{pid}/cmdline"), "rb") as file:
            return [word.decode(errors="replace") for word in file.read().rstrip(b"\0").split(b"\0")]
    except OSError:
        return []


def listeners(context: Context, port: int | None = None, *, commands: bool = False) -> list[dict[str, Any]]:
    """Return the listening sockets, one entry for each process that holds one.

    Arguments:
        context: The session.
        port: Only this port; None for all.
        commands: Add the command lines.
    """
    sockets = [end for end in endpoints(context) if end.state == LISTEN and port in (None, end.port)]
    owners = socket_owners(context, {end.inode for end in sockets})
    found = []
    for end in sorted(sockets, key=lambda end: (end.port, end.address)):
        for pid in owners.get(end.inode, [None]):
            entry: dict[str, Any] = {
                "address": end.address,
                "port": end.port,
                "pid": pid,
                "exe": None,
                "unit": None,
            }
            if pid is not None:
                entry |= {"exe": executable_of(context, pid), "unit": unit_of(context, pid)}
            if commands:
                entry["cmdline"] = [] if pid is None else command_of(context, pid)
            found.append(entry)
    return found


def observe_listener(context: Context, item: dict[str, Any]) -> dict[str, Any]:
    """Answer the `listener` object of `observe`."""
    return {"owners": listeners(context, arg.integer(item, "port"), commands=True)}
