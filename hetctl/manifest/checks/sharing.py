"""What two placements cannot have at once: a device, or a port."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from hetctl.manifest.draft import Draft
from hetctl.manifest.references import DeviceKind, DeviceRef, Resolved, ResolvedPlacement
from hetctl.manifest.source import KeyPath
from hetctl.manifest.wording import quoted

_ANY = ""
"""Stands for every address of a machine, and for one that only the connection can tell."""


def check_sharing(draft: Draft, resolved: Resolved) -> None:
    """Check that running placements do not get in each other's way."""
    running = [each for each in resolved.placements.values() if each.placement.state == "running"]
    _check_devices(draft, resolved, running)
    _check_ports(draft, resolved, running)


def _check_devices(draft: Draft, resolved: Resolved, running: list[ResolvedPlacement]) -> None:
    users: dict[str, ResolvedPlacement] = {}
    for placement in running:
        for device in dict.fromkeys(placement.devices):
            if device.kind is DeviceKind.HEAD_CPU:
                continue
            other = users.setdefault(device.text, placement)
            if other is placement or _one_group(other, placement):
                continue
            if message := _conflict(resolved, device, other, placement):
                path = _device_path(placement, device)
                draft.problems.add("E211", message[0], path, hint=message[1], key=path[-1] == placement.name)


def _conflict(
    resolved: Resolved, device: DeviceRef, one: ResolvedPlacement, two: ResolvedPlacement
) -> tuple[str, str] | None:
    """Return message and hint when two placements cannot share a device."""
    used = f"{quoted(device.text)} is used by placement {quoted(one.name)} already"
    if device.kind is DeviceKind.CPU_WORKER:
        return f"the CPU worker {used}", f"declare another under `cpuWorkers` of node {quoted(device.node)}"
    if not resolved.gpu(device).shared:
        return (
            f"the card {used}",
            "use another card, or allow it with `shared: true` and explicit layers in both",
        )
    if "auto" in (one.placement.layers, two.placement.layers):
        return f"the shared card {used}, and not both give explicit layers", "give `layers` in both"
    return None


def _device_path(placement: ResolvedPlacement, device: DeviceRef) -> KeyPath:
    path = ("placements", placement.name)
    if placement.placement.devices == "auto":
        return path
    return (*path, "devices", placement.devices.index(device))


def _one_group(one: ResolvedPlacement, two: ResolvedPlacement) -> bool:
    return one.placement.group is not None and one.placement.group == two.placement.group


def _check_ports(draft: Draft, resolved: Resolved, running: list[ResolvedPlacement]) -> None:
    """Report the second of two processes that would listen on one port of one machine."""
    owners: dict[tuple[str, int], dict[str, tuple[str, ResolvedPlacement]]] = {}  # by address: what, whose
    for placement in running:
        for node, port, address, what, path in _listeners(resolved, placement):
            here = owners.setdefault((node, port), {})
            other = here.get(address) or here.get(_ANY)
            if address == _ANY and here and other is None:
                other = next(iter(here.values()))
            if other == (what, placement):  # two addresses of one server; workers are counted elsewhere
                continue
            if other is not None and not _one_group(other[1], placement):
                owner = f"the {other[0]} of placement {quoted(other[1].name)}"
                draft.problems.add(
                    "E218", f"port {port} of node {quoted(node)} is taken by {owner}", path,
                    hint=f"give this {what} another port", key=path[-1] == placement.name,
                )  # fmt: skip
                break
            here.setdefault(address, (what, placement))


def _listeners(
    resolved: Resolved, placement: ResolvedPlacement
) -> Iterator[tuple[str, int, str, str, KeyPath]]:
    """Yield (node, port, address, what it is, where it is declared) of every port that is fixed."""
    path: KeyPath = ("placements", placement.name)
    server = placement.placement.server
    where: KeyPath = (*path, "server", "port") if "port" in server.model_fields_set else path
    for address in placement.listen or (_ANY,):
        yield placement.head, placement.port, _bound(address), "server", where
    port = placement.placement.rpc.port
    if port is not None:
        for node, _ in placement.workers:
            address = resolved.nodes[node].rpc_address or _ANY
            yield node, port, _bound(address), "worker", (*path, "rpc", "port")


def _bound(address: str) -> str:
    """Return the address, or _ANY when it stands for all of a machine or is not known."""
    try:
        return _ANY if ipaddress.ip_address(address).is_unspecified else address
    except ValueError:
        return _ANY
