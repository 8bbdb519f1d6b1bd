"""Finds what a name in a manifest refers to, and says so when it refers to nothing."""

from __future__ import annotations

from collections.abc import Mapping

from hetctl.manifest.availability import AUTO_DEVICES
from hetctl.manifest.draft import Draft
from hetctl.manifest.placements import Placement
from hetctl.manifest.resolved import HEAD_CPU, DeviceKind, DeviceRef, devices_of
from hetctl.manifest.source import KeyPath
from hetctl.manifest.wording import listed, named, quoted


def find_build(draft: Draft, path: KeyPath, placement: Placement) -> str | None:
    """Return the build a placement uses: the one it names, else the only one."""
    builds = draft.cluster.builds
    if placement.build is not None:
        return find(draft, "builds", placement.build, "E206", (*path, "build"))
    unsure = any(broken[0] == "builds" for broken in draft.broken)
    if len(builds) == 1 and not unsure:
        (only,) = builds
        return only
    if not unsure:
        what = f"{named('placement', str(path[1]))} does not say which build to use"
        if builds:
            draft.problems.add(
                "E208", f"{what} of {listed(builds, word='and')}", path, hint="add `build: …`", key=True
            )
        else:
            draft.problems.add(
                "E206", f"{what}, and none is declared", path, hint="declare one under `builds`", key=True
            )
    return None


def find(draft: Draft, section: str, name: str, code: str, path: KeyPath) -> str | None:
    """Return `name` if the section declares it; None when it does not (reported) or that is unsure."""
    known: Mapping[str, object] = getattr(draft.cluster, section)
    if name in known:
        return name
    if not draft.doubtful(section, name):
        hint = draft.problems.guess(name, known) or f"declare it under `{section}`"
        draft.problems.add(code, f"there is no {named(section[:-1], name)}", path, hint=hint)
    return None


def find_host(draft: Draft, name: str, path: KeyPath) -> str | None:
    """Return `name` if it is a node or virtual machine; None as `find`."""
    if name in draft.hosts:
        return name
    if not draft.doubtful_host(name):
        hint = draft.problems.guess(name, draft.hosts) or "declare it under `nodes`"
        draft.problems.add("E204", f"there is no {named('node', name)}", path, hint=hint)
    return None


def find_devices(
    draft: Draft, path: KeyPath, placement: Placement, known: Mapping[str, DeviceRef]
) -> tuple[DeviceRef, ...] | None:
    """Return the devices of a placement in order, or None when one is wrong or may be.

    Arguments:
        draft: The cluster.
        path: Where the placement stands.
        placement: It.
        known: Every declared device by its text.
    """
    if placement.devices == "auto":
        return _auto_devices(draft, path)
    found = [
        _device(draft, text, known, (*path, "devices", index)) for index, text in enumerate(placement.devices)
    ]
    return tuple(device for device in found if device is not None) if None not in found else None


def _auto_devices(draft: Draft, path: KeyPath) -> tuple[DeviceRef, ...] | None:
    """Return all devices of the only machine; with several, dividing a model needs the fit."""
    hosts = draft.hosts
    if any(broken[0] in {"nodes", "vms"} for broken in draft.broken):
        return None
    if len(hosts) != 1:
        what = "`devices: auto` with several machines is" if hosts else "`devices: auto` without a machine is"
        draft.problems.add(
            AUTO_DEVICES,
            f"{what} not available yet",
            path,
            hint="list the devices: `devices: [node/name, …]`",
            key=True,
        )
        return None
    (host,) = hosts
    devices = tuple(devices_of(draft.cluster, host).values())
    return devices or (DeviceRef(f"{host}/{HEAD_CPU}", host, DeviceKind.HEAD_CPU, HEAD_CPU),)


def _device(draft: Draft, text: str, known: Mapping[str, DeviceRef], path: KeyPath) -> DeviceRef | None:
    host, slash, name = text.partition("/")
    if text in known:
        return known[text]
    if draft.problems.full:
        return None
    if not slash or "/" in name:
        hint = draft.problems.guess(text, known) or "write node/name, such as atlas/fast"
        same = [other for other in known if other.endswith(f"/{text}")]
        hint = f"did you mean {listed(map(quoted, same))}?" if same else hint
        draft.problems.add("E205", f"{quoted(text)} is not a device", path, hint=hint)
        return None
    if draft.doubtful_host(host) or find_host(draft, host, path) is None:
        return None
    if name == HEAD_CPU:
        return DeviceRef(text, host, DeviceKind.HEAD_CPU, name)
    if host in draft.cluster.nodes and name in draft.cluster.nodes[host].gpus:
        vm = next(
            (vm for vm, each in draft.cluster.vms.items() if each.on == host and name in each.gpus), None
        )
        owner = f"goes to {named('VM', vm)}" if vm else "is passed through"
        draft.problems.add(
            "E213",
            f"the card {quoted(text)} {owner}",
            path,
            hint=f"write {vm}/{name}" if vm else "use another device",
        )
        return None
    here = devices_of(draft.cluster, host)
    hint = draft.problems.guess(name, [*here, HEAD_CPU])
    if not hint:
        hint = f"it has {listed(here, word='and')}" if here else "declare it under `gpus` or `cpuWorkers`"
    draft.problems.add("E205", f"{named('node', host)} has no device {quoted(name)}", path, hint=hint)
    return None
