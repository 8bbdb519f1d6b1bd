"""Members of a gang stop and start together: what changes under one of them takes all of them along. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetctl.resources.base import Action, Address, Change, Cost, Reason


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
    moved = [_restarted_under(change, replaced) for change in changes]
    culprits: dict[str, Change] = {}
    for change in moved:
        if change.gang is not None and change.pending and change.cost is not Cost.NOTHING:
            culprits.setdefault(change.gang, change)
    return [
        _restart(change, _short(culprits[change.gang]))
        if change.action is Action.NONE and change.gang is not None and change.gang in culprits
        else change
        for change in moved
    ]


def _restarted_under(change: Change, replaced: set[Address]) -> Change:
    if change.action is not Action.NONE or change.gang is None:
        return change
    below = next((address for address in change.depends_on if address in replaced), None)
    return change if below is None else _restart(change, f"{below} is replaced", Cost.MODEL_RELOAD)


def _restart(change: Change, why: str, cost: Cost = Cost.SERVICE_RESTART) -> Change:
    return replace(change, action=Action.RESTART, reasons=(Reason(f"because {why}"),), cost=cost)


def _short(culprit: Change) -> str:
    what = "the head" if culprit.kind == "server" else culprit.address
    return f"{what} goes" if culprit.action is Action.REMOVE else f"{what} restarts"
