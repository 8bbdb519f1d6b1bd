"""A plan for a part of a cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from hetctl.engine.examine import Situation
from hetctl.resources.base import Action, Change


def narrowed(situation: Situation, chosen: Callable[[Change], bool]) -> Situation:
    """Return the situation with the chosen changes, the rest of their gangs and all they depend on.

    What the plan says about nodes and placements that have no part in these is left out as well.
    """
    plan = situation.plan
    gangs = {change.gang for change in plan.changes if change.gang is not None and chosen(change)}
    kept = {
        (change.address, change.node)
        for change in plan.changes
        if chosen(change) or (change.gang is not None and change.gang in gangs)
    }
    kept = _with_foundations(plan.changes, kept)
    changes = tuple(change for change in plan.changes if (change.address, change.node) in kept)
    nodes = {change.node for change in changes}
    return replace(
        situation,
        plan=replace(
            plan,
            changes=changes,
            nodes_unknown={node: why for node, why in plan.nodes_unknown.items() if node in nodes},
            waits={key: why for key, why in plan.waits.items() if key in kept},
            gangs=tuple(gang for gang in plan.gangs if gang.placement in gangs),
        ),
    )


def _with_foundations(changes: Collection[Change], kept: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return what is kept and everything it stands on; a removal takes along what stands on it instead."""
    found = set(kept)
    while True:
        needed = {
            address
            for change in changes
            if (change.address, change.node) in found and change.action is not Action.REMOVE
            for address in change.depends_on
        }
        more = {
            (change.address, change.node)
            for change in changes
            if change.address in needed and change.action is not Action.REMOVE
        } - found
        if not more:
            return found
        found |= more
