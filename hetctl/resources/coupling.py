"""Members of a gang stop and start together: what changes under one of them takes all of them along. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetctl.resources.activity import PROCESSES, runs
from hetctl.resources.base import Action, Address, Change, Cost, Reason

_UNTOUCHED = frozenset({Action.NONE, Action.RENAME})
"""Actions that leave a process alone."""


def couple(changes: Sequence[Change]) -> list[Change]:
    """Return the changes with RESTART for each unchanged member of a gang in which something restarts.

    A member restarts by itself when something it runs from (a build, a model) is replaced where it lies: the
    process would go on with files that are gone.
    """
    replaced = {
        change.address
        for change in changes
        if change.gang is None and change.action is Action.UPDATE and change.cost is not Cost.NOTHING
    }
    used = {
        address
        for change in changes
        if change.mark is not None and change.action is not Action.REMOVE
        for address in change.mark.depends_on
    }
    moved = [_unused(_restarted_under(change, replaced), used) for change in changes]
    culprits: dict[str, Change] = {}
    for change in moved:
        if change.gang is not None and change.pending and change.cost is not Cost.NOTHING:
            culprits.setdefault(change.gang, change)
    blocked = {change.gang for change in moved if change.action is Action.BLOCKED and change.gang is not None}
    return [
        _restart(change, _short(culprits[str(change.gang)]))
        if change.action in _UNTOUCHED and change.gang in culprits and _runs(change)
        else _held(change, blocked)
        for change in moved
    ]


def _unused(change: Change, used: set[Address]) -> Change:
    """Return the removal of a worker that no server was started with as one that interrupts nothing."""
    if change.action is Action.REMOVE and change.kind == "worker" and change.address not in used:
        return replace(change, cost=Cost.NOTHING)
    return change


def _runs(change: Change) -> bool:
    return change.kind in PROCESSES and (change.desired is None or runs(change.desired.spec))


def restarted(changes: Sequence[Change], placement: str) -> list[Change]:
    """Return the changes with RESTART for each member of a placement that runs and would stay as it is."""
    return [
        _restart(change, "it is asked for", Cost.MODEL_RELOAD)
        if change.gang == placement and change.action is Action.NONE and _runs(change)
        else change
        for change in changes
    ]


def _held(change: Change, blocked: set[str]) -> Change:
    """Return a packet filter of a blocked placement as BLOCKED.

    Its port is somebody else's: a filter would lock out whoever uses it, sshd for one.
    """
    desired = change.desired
    if desired is None or not change.pending or desired.spec.get("placement") not in blocked:
        return change
    if change.gang is not None:
        return change
    why = Reason(f"placement {desired.spec['placement']} is blocked", desired.position)
    return replace(change, action=Action.BLOCKED, reasons=(why,))


def _restarted_under(change: Change, replaced: set[Address]) -> Change:
    if change.action not in _UNTOUCHED or change.gang is None or not _runs(change):
        return change
    below = next((address for address in change.depends_on if address in replaced), None)
    return change if below is None else _restart(change, f"{below} is replaced", Cost.MODEL_RELOAD)


def _restart(change: Change, why: str, cost: Cost = Cost.SERVICE_RESTART) -> Change:
    return replace(change, action=Action.RESTART, reasons=(Reason(f"because {why}"),), cost=cost)


def _short(culprit: Change) -> str:
    what = "the head" if culprit.kind == "server" else culprit.address
    return f"{what} goes" if culprit.action is Action.REMOVE else f"{what} restarts"
