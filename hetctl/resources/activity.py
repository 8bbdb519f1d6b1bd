"""Which placements run: what the manifest says, what a group remembers, what a command asks for. Pure.

Which member of a group runs is kept by the nodes, in the marks of the servers, and is no drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hetctl.errors import UsageError
from hetctl.manifest.references import Resolved, ResolvedPlacement
from hetctl.resources.arrangement import Inputs
from hetctl.resources.base import Action, Change, Cost, Desired, Mark
from hetctl.resources.provider import Verb
from hetctl.rules import groups
from hetctl.rules.finding import Finding
from hetctl.transport.base import Json

PROCESSES = frozenset({"worker", "server"})
"""Kinds that are a process of a placement."""

RUNNING = "running"
STOPPED = "stopped"


def runs(spec: Mapping[str, Json]) -> bool:
    """Return whether a worker or server with this spec is meant to run."""
    return spec.get("state") != STOPPED


def asked_states(resolved: Resolved, verb: Verb, placement: str) -> dict[str, str]:
    """Return what a command makes of the placements it concerns, by name.

    Arguments:
        resolved: The manifest.
        verb: What is asked for.
        placement: Of a declared placement.

    Raises:
        UsageError: The manifest says that it is stopped, or it is in no group.
    """
    item = resolved.placements[placement].placement
    position = resolved.cluster.source.position
    if verb is Verb.STOP:
        return {placement: STOPPED}
    if verb is Verb.ROLLBACK:
        return {}
    if item.state == STOPPED:
        raise UsageError(
            f"placement {placement} is declared stopped",
            where=str(position(("placements", placement, "state"))),
            fix="take `state: stopped` out of the manifest and apply it",
        )
    if verb is Verb.RESTART:
        return {}
    if verb is Verb.START:
        return {placement: RUNNING}
    if item.group is None:
        raise UsageError(
            f"placement {placement} is in no group",
            where=str(position(("placements", placement))),
            fix=f"hetctl start {placement}, or give it a `group`",
        )
    others = [other.name for other in resolved.placements.values() if other.placement.group == item.group]
    return {**dict.fromkeys(others, STOPPED), placement: RUNNING}


def cost_of(desired: Desired, mark: Mark | None, otherwise: Cost) -> Cost:
    """Return what changing a worker or server interrupts.

    Arguments:
        desired: As it should be.
        mark: As it was applied.
        otherwise: What it costs when it is to run.
    """
    if runs(desired.spec):
        return otherwise
    return Cost.SERVICE_RESTART if mark is not None and runs(mark.spec) else Cost.NOTHING


def word_of(change: Change) -> Change:
    """Return the change of a worker or server with the word for it when it starts or stops."""
    desired, mark = change.desired, change.mark
    if change.action is not Action.UPDATE or desired is None or mark is None:
        return change
    if runs(desired.spec) == runs(mark.spec):
        return change
    return replace(change, word="start" if runs(desired.spec) else "stop")


def running_placements(inputs: Inputs) -> frozenset[str]:
    """Return the names of the placements that should run.

    A member of a group runs when it ran before; the first one that may when none was ever applied; none when
    all were stopped, or when nodes that may know better could not be read.
    """
    found = set()
    for item in inputs.resolved.placements.values():
        asked = inputs.states.get(item.name)
        if asked is not None:
            wanted = asked == RUNNING
        elif item.placement.state == STOPPED:
            wanted = False
        elif item.placement.group is None:
            wanted = True
        else:
            wanted = item.name == _member_that_runs(inputs, item.placement.group)
        if wanted:
            found.add(item.name)
    return frozenset(found)


def members(inputs: Inputs, group: str) -> list[ResolvedPlacement]:
    """Return the placements of a group in file order."""
    return [item for item in inputs.resolved.placements.values() if item.placement.group == group]


def _member_that_runs(inputs: Inputs, group: str) -> str | None:
    able = [item for item in members(inputs, group) if item.placement.state == RUNNING]
    recorded = {item.name: _server_mark(inputs, item.name) for item in able}
    for name, mark in recorded.items():
        if mark is not None and runs(mark.spec):
            return name
    silent = any(inputs.reading(item.head) is None for item in able)
    asked = any(inputs.states.get(item.name) == RUNNING for item in able)
    if silent or asked or any(mark is not None for mark in recorded.values()):
        return None
    return able[0].name if able else None


def _server_mark(inputs: Inputs, placement: str) -> Mark | None:
    return next((mark for mark in inputs.marks() if mark.address == f"server/{placement}"), None)


def makes_way(inputs: Inputs, item: ResolvedPlacement, running: frozenset[str]) -> tuple[str, ...]:
    """Return the processes that have to stop before a placement may start: those of its group that run now.

    Arguments:
        inputs: Of the plan.
        item: The placement.
        running: The placements that should run.

    Returns:
        Addresses of workers and servers.
    """
    if item.placement.group is None or item.name not in running:
        return ()
    leaving = {other.name for other in members(inputs, item.placement.group)} - running
    return tuple(
        sorted(
            mark.address
            for mark in inputs.marks()
            if mark.gang in leaving and mark.kind in PROCESSES and runs(mark.spec)
        )
    )


def group_findings(inputs: Inputs, running: frozenset[str]) -> list[Finding]:
    """Return what there is to say about groups: two members that would run at once, or none that does."""
    found = []
    for group in dict.fromkeys(item.placement.group for item in inputs.resolved.placements.values()):
        if group is None:
            continue
        able = [item.name for item in members(inputs, group) if item.placement.state == RUNNING]
        names = [item.name for item in members(inputs, group) if item.name in running]
        asked = next((name for name in names if inputs.states.get(name) == RUNNING), "")
        line = inputs.position("placements", asked or [*names, *able, ""][0], "group")
        if len(names) > 1:
            other = next(name for name in names if name != asked)
            found.append(groups.busy(group, runs=other, asked=asked, position=line))
        elif able and not names and not inputs.states:
            found.append(groups.idle(group, able, position=line))
    return found


def in_state(process: Desired, *, runs: bool, after: tuple[str, ...]) -> Desired:
    """Return a worker or server with what it is meant to do.

    Arguments:
        process: The worker or server.
        runs: Whether it should run.
        after: Addresses of processes that have to stop before.
    """
    spec = {**process.spec, "state": RUNNING if runs else STOPPED}
    return replace(process, spec=spec, depends_on=(*process.depends_on, *after))
