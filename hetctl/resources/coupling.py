"""Members of a gang stop and start together: one that changes takes the others with it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetctl.resources.base import Action, Change, Cost, Reason


def couple(changes: Sequence[Change]) -> list[Change]:
    """Return the changes with RESTART for each unchanged member of a gang in which something restarts."""
    culprits: dict[str, Change] = {}
    for change in changes:
        if change.gang is not None and change.pending and change.cost is not Cost.NOTHING:
            culprits.setdefault(change.gang, change)
    return [
        replace(
            change,
            action=Action.RESTART,
            reasons=(Reason(f"because {_short(culprits[change.gang])}"),),
            cost=Cost.SERVICE_RESTART,
        )
        if change.action is Action.NONE and change.gang is not None and change.gang in culprits
        else change
        for change in changes
    ]


def _short(culprit: Change) -> str:
    what = "the head" if culprit.kind == "server" else culprit.address
    return f"{what} goes" if culprit.action is Action.REMOVE else f"{what} restarts"
