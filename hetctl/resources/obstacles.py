"""What stands in the way and is not ours: named, with the command that removes it, never touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hetctl.resources import layout
from hetctl.resources.activity import runs
from hetctl.resources.base import Action, Change, Desired, Observed, Reason
from hetctl.resources.unit import MANAGED_NOTE
from hetctl.transport import quoting
from hetctl.transport.base import Json


def unless_in_the_way(change: Change, desired: Desired, observed: Observed) -> Change:
    """Return the change, as BLOCKED when something that is not ours is in its way.

    That is a process on the declared port, a unit of that name, or a drop-in that changes a unit of ours.
    """
    if observed.unknown:
        return change
    if runs(desired.spec) and (owner := foreign_listener(desired, observed)):
        why, fix = f"port {desired.spec['port']} belongs to {describe_owner(owner)}", stop_command(owner)
    elif path := foreign_unit_file(desired, observed):
        why = f"{path} is there already, and hetctl did not write it"
        fix = quoting.shell_command(["mv", path, f"{path}.before-hetctl"]) + " && systemctl daemon-reload"
    elif paths := foreign_drop_ins(observed):
        why = f"{desired.spec['unit']} is changed by {', '.join(paths)}"
        fix = quoting.shell_command(["rm", *paths]) + " && systemctl daemon-reload"
    else:
        return change
    return replace(change, action=Action.BLOCKED, reasons=(Reason(why, desired.position),), fix=fix)


def foreign_listener(desired: Desired, observed: Observed) -> Mapping[str, Any] | None:
    """Return the process that holds the declared port and is not ours, if there is one."""
    port = desired.spec.get("port")
    own = layout.units_of_cluster(str(desired.spec["unit"]))
    before = observed.mark.spec.get("unit") if observed.mark is not None else None
    for state in observed.states:
        for owner in state.get("owners") or []:
            unit = str(owner.get("unit") or "")
            ours = unit.startswith(own) or unit == before
            if owner.get("port") == port and not ours and not _expected(owner, desired.replaces):
                found: Mapping[str, Any] = owner
                return found
    return None


CONTAINER_PROGRAMS = frozenset({"docker-proxy", "conmon", "rootlessport", "pasta", "slirp4netns"})
"""What holds the published ports of containers: Docker and Podman."""


def _expected(owner: Mapping[str, Any], replaces: tuple[str, str] | None) -> bool:
    """Return whether a listener is what the placement is to take the place of."""
    unit, program = str(owner.get("unit") or ""), str(owner.get("exe") or "")
    match replaces:
        case ("unit", name):
            return unit == name
        case ("process", name):
            return program == name
        case ("container", _):  # which of them it is shows when it has stopped: a start on a held port fails
            return unit.startswith(("docker-", "libpod-")) or program.rpartition("/")[2] in CONTAINER_PROGRAMS
    return False


def foreign_unit_file(desired: Desired, observed: Observed) -> str:
    """Return the path of a unit file that has the name of ours and is not; empty when there is none.

    One that hetctl wrote says so in its first line: its mark may have been lost.
    """
    if observed.mark is not None:
        return ""
    said = [str(state["first_line"]) for state in observed.states if "first_line" in state]
    return str(desired.spec["unit_path"]) if any(line != MANAGED_NOTE for line in said) else ""


def foreign_drop_ins(observed: Observed) -> list[str]:
    """Return the files that change a unit of ours and that hetctl did not write: it writes no drop-ins."""
    return [path for state in observed.states for path in state.get("drop_ins") or []]


def describe_owner(owner: Mapping[str, Json]) -> str:
    """Return a phrase that names the owner of a socket."""
    program = owner.get("exe") or owner.get("cmdline") or "an unknown program"
    unit = f", unit {owner['unit']}" if owner.get("unit") else ""
    return f"{program} (process {owner.get('pid') or '?'}{unit})"


def stop_command(owner: Mapping[str, Json]) -> str:
    """Return what would free a socket, best as a command; hetctl never does it."""
    unit = str(owner.get("unit") or "")
    if layout.is_ours(unit):
        cluster = layout.cluster_of(unit)
        return (
            f"it is cluster {cluster}'s: use another port, destroy that cluster, or `renamedFrom: {cluster}`"
        )
    if unit.endswith(".service") and not unit.startswith(("user@", "session")):
        return f"systemctl disable --now {unit}"
    return f"kill {owner.get('pid')}"
