"""A plan for a part of a cluster. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from hetctl.engine.examine import Situation
from hetctl.errors import UsageError
from hetctl.resources.base import Action, Change

Key = tuple[str, str]


def limited(situation: Situation, targets: Collection[str]) -> Situation:
    """Return the situation with what the targets name and what belongs to that; as it is without targets.

    Arguments:
        situation: Of the whole cluster.
        targets: Placements (`chat`) and resources (`server/chat`, `build/main@atlas`).

    Raises:
        UsageError: One names nothing in the plan.
    """
    if not targets:
        return situation
    known = {name for change in situation.plan.changes for name in names_of(change)}
    for target in sorted(set(targets) - known):
        near = difflib.get_close_matches(target, known, n=1)
        raise UsageError(
            f"nothing in the plan is called {target!r}",
            fix=f"did you mean {near[0]!r}?" if near else "name a placement or a resource, as the plan does",
        )
    wanted = set(targets)
    limited_to = narrowed(situation, lambda change: not wanted.isdisjoint(names_of(change)))
    return replace(limited_to, plan=replace(limited_to.plan, targets=tuple(sorted(wanted))))


def names_of(change: Change) -> set[str]:
    """Return what a change can be called: its placement, its resource, its resource with the node."""
    names = {change.address, f"{change.address}@{change.node}"}
    return names | ({change.gang} if change.gang is not None else set())


def narrowed(situation: Situation, chosen: Callable[[Change], bool]) -> Situation:
    """Return the situation with the chosen changes, what they stand on, and what cannot be told from them.

    That is the rest of their gangs, and what restarts because of them. What the plan says about nodes and
    placements that have no part in these is left out as well.
    """
    plan = situation.plan
    kept = {_key(change) for change in plan.changes if chosen(change)}
    while more := _belonging(plan.changes, kept) - kept:
        kept |= more
    changes = tuple(change for change in plan.changes if _key(change) in kept)
    nodes = {change.node for change in changes}
    gangs = {change.gang for change in changes}
    return replace(
        situation,
        plan=replace(
            plan,
            changes=changes,
            nodes_unknown={node: why for node, why in plan.nodes_unknown.items() if node in nodes},
            waits={key: why for key, why in plan.waits.items() if key in kept},
            gangs=tuple(gang for gang in plan.gangs if gang.placement in gangs),
            left_out=len(plan.pending) - sum(change.pending for change in changes),
        ),
    )


def _belonging(changes: Iterable[Change], kept: set[Key]) -> set[Key]:
    """Return what belongs to what is kept: gangs, foundations, and what restarts because of it."""
    inside = [change for change in changes if _key(change) in kept]
    gangs = {change.gang for change in inside if change.gang is not None}
    needed = {
        address for change in inside if change.action is not Action.REMOVE for address in change.depends_on
    }
    addresses = {change.address for change in inside if change.pending}
    return {
        _key(change)
        for change in changes
        if change.gang in gangs
        or (change.address in needed and change.action is not Action.REMOVE)
        or (change.action is Action.RESTART and not addresses.isdisjoint(change.depends_on))
    }


def _key(change: Change) -> Key:
    return change.address, change.node
