"""Rules about what a node must have before anything is put on it. Pure."""

from __future__ import annotations

from collections.abc import Collection

from hetctl.errors import Position
from hetctl.facts.node import NodeFacts
from hetctl.rules.finding import Finding, Severity

DISK_MARGIN = 1 << 30
"""Bytes that stay free on the disk: a full one stops journals and logins too."""


def needs_systemd(node: str, facts: NodeFacts, position: Position | None) -> list[Finding]:
    """Return a finding when a node that has to run services is not run by systemd."""
    if facts.has_systemd:
        return []
    return [
        Finding(
            code="NO_SYSTEMD",
            severity=Severity.ERROR,
            where=node,
            what="systemd does not run this machine, so nothing would keep its services running",
            why=f"process 1 is {facts.init or 'unknown'}",
            fix="use a machine or container that boots with systemd",
            position=position,
        )
    ]


def needs_packet_filter(node: str, facts: NodeFacts, position: Position | None) -> list[Finding]:
    """Return a finding when a node whose port has to be closed lacks nft."""
    if "nft" in facts.tools:
        return []
    return [
        Finding(
            code="NFTABLES_MISSING",
            severity=Severity.ERROR,
            where=node,
            what="the packet filter tool nft is not there, so the worker's port cannot be closed",
            fix="apt install nftables on that node",
            position=position,
        )
    ]


def needs_access(
    node: str, facts: NodeFacts, *, path: str, programs: bool, position: Position | None
) -> list[Finding]:
    """Return a finding when llama.cpp's services could not use what lies in a directory.

    They run as users of their own, so every directory on the way has to let others pass.

    Arguments:
        node: Where.
        facts: Of the node; a path that was not asked about gives no finding.
        path: The directory.
        programs: It holds what is run.
        position: The manifest line that chooses it.
    """
    disk = facts.disks.get(path)
    if disk is None:
        return []
    if disk.closed:
        what, fix = f"services cannot reach {path}: {disk.closed} is closed to others", "chmod o+x"
        fix = f"{fix} {disk.closed}, or set `paths` of the node to another directory"
    elif programs and disk.noexec:
        what = f"no program may be run from {path}: its file system is mounted noexec"
        fix = "mount it with exec, or set `paths` of the node to another directory"
    else:
        return []
    return [
        Finding(
            code="PATH_CLOSED", severity=Severity.ERROR, where=node, what=what, fix=fix, position=position
        )
    ]


def needs_room(
    node: str, facts: NodeFacts, *, path: str, wanted: int, what: str, position: Position | None
) -> list[Finding]:
    """Return a finding when a disk has no room for what is to be put on it.

    Arguments:
        node: Where.
        facts: Of the node; a path that was not asked about gives no finding.
        path: Directory it goes to.
        wanted: Bytes that are not there yet.
        what: Names it.
        position: The manifest line that wants it.
    """
    disk = facts.disks.get(path)
    if disk is None or wanted == 0 or disk.free >= wanted + DISK_MARGIN:
        return []
    return [
        Finding(
            code="DISK_TOO_SMALL",
            severity=Severity.ERROR,
            where=node,
            what=f"{what} does not fit on the disk of {path}",
            why=f"{wanted / 1e9:.2f} GB are wanted, {disk.free / 1e9:.2f} GB are free, 1 GiB must stay free",
            fix="make room, or set `paths` of the node to another disk",
            position=position,
        )
    ]


def open_api(
    where: str, addresses: Collection[str], port: int, *, keys: bool, position: Position | None
) -> list[Finding]:
    """Return a finding when a server without API keys listens on more than loopback."""
    if keys or all(address.startswith("127.") or address == "::1" for address in addresses):
        return []
    return [
        Finding(
            code="API_OPEN",
            severity=Severity.WARNING,
            where=where,
            what=f"everybody who reaches {', '.join(addresses)} port {port} can use it",
            fix="give it `server: {apiKeys: {me: {env: NAME}}}` or `listen: [127.0.0.1]`",
            position=position,
        )
    ]


def open_workers(where: str, position: Position | None) -> list[Finding]:
    """Return the finding for workers that nothing keeps strangers from."""
    return [
        Finding(
            code="RPC_OPEN",
            severity=Severity.WARNING,
            where=where,
            what="nothing keeps strangers from its workers: whoever connects can run code there",
            fix="leave out `rpc.exposure`, so that a packet filter lets only the head in",
            position=position,
        )
    ]
