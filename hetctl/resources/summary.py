"""What a plan means for each placement: why, for how long it is down, and who holds what afterwards. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hetctl.manifest.references import Resolved
from hetctl.resources.activity import PROCESSES, runs
from hetctl.resources.arrangement import ModelShape
from hetctl.resources.base import Action, Change, Cost
from hetctl.resources.card_table import card_rows, free_memory
from hetctl.resources.provider import GangSummary, Plan, Survey

SECONDS_PER_START = 5.0
BYTES_PER_SECOND = 100_000_000
"""What loading is estimated at: gigabit Ethernet, or a hard disk, whichever the bytes pass."""

_COSTS = list(Cost)

_MOVES_BYTES = (
    "devices", "layers", "nCpuMoe", "context", "slots", "kvUnified", "kvCache", "flashAttention", "batch",
    "ubatch",
)  # fmt: skip
"""Settings that decide how much memory is taken where."""


def summarise(
    plan: Plan, survey: Survey, resolved: Resolved, shapes: Mapping[str, ModelShape]
) -> tuple[GangSummary, ...]:
    """Return a summary of every placement that the plan touches."""
    heads = [change for change in plan.changes if change.kind == "server" and change.desired is not None]
    due = [head for head in heads if _table_due(head)]
    free = free_memory(heads, survey, resolved, shapes) if due else {}
    tables = {head.gang: card_rows(head, shapes, free) for head in due}
    names = dict.fromkeys(change.gang for change in plan.changes if change.gang is not None)
    found = []
    for name in names:
        members = [change for change in plan.changes if change.gang == name]
        if any(change.pending or change.action is Action.BLOCKED for change in members):
            summary = _summary(name, members, resolved, shapes)
            found.append(replace(summary, rows=tables.get(name, ())))
    return tuple(found)


def _summary(
    name: str, members: Sequence[Change], resolved: Resolved, shapes: Mapping[str, ModelShape]
) -> GangSummary:
    item = resolved.placements.get(name)
    cost = max((change.cost for change in members), key=_COSTS.index)
    action = _action(members)
    own = [
        change
        for change in members
        if change.action not in (Action.NONE, Action.RESTART)
        and not (change.action is Action.CREATE and change.kind not in PROCESSES)
    ]
    reasons = tuple(dict.fromkeys(reason for change in own for reason in change.reasons))
    restarting = action is Action.UPDATE and cost is not Cost.NOTHING
    seconds = None
    if item is not None and item.model in shapes and action is not Action.REMOVE and cost is not Cost.NOTHING:
        size = shapes[item.model].size
        seconds = round(SECONDS_PER_START + size / BYTES_PER_SECOND)
    outage = cost.value if restarting else ""
    if any(change.desired is not None and not runs(change.desired.spec) for change in members):
        seconds, outage = None, "stopped until it is started again" if restarting else ""
    return GangSummary(
        placement=name,
        action=action,
        position=resolved.cluster.source.position(("placements", name)) if item is not None else None,
        reasons=reasons,
        outage=outage,
        cost=cost,
        seconds=seconds,
    )


def _action(members: Sequence[Change]) -> Action:
    heads = [change for change in members if change.kind == "server"]
    actions = {change.action for change in members}
    if Action.BLOCKED in actions:
        return Action.BLOCKED
    if heads and all(change.action is Action.CREATE for change in heads):
        return Action.CREATE
    if heads and all(change.action is Action.REMOVE for change in heads):
        return Action.REMOVE
    return Action.UPDATE


def _table_due(head: Change) -> bool:
    """Return True at the first apply and when something is set that moves layers or bytes."""
    if head.desired is None or not head.pending:
        return False
    if head.mark is None:
        return True
    old, new = head.mark.spec, head.desired.spec
    moved = any(old["settings"].get(key) != new["settings"].get(key) for key in _MOVES_BYTES)
    return moved or old["model_sha256"] != new["model_sha256"]
