"""What a plan means for each placement: why, for how long it is down, and who holds what afterwards. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetctl.manifest.references import Resolved
from hetctl.resources.arrangement import ModelShape
from hetctl.resources.base import Action, Change, Cost
from hetctl.resources.provider import DeviceRow, GangSummary, Plan, Survey

SECONDS_PER_START = 5.0
BYTES_PER_SECOND = 100_000_000
"""What loading is estimated at: gigabit Ethernet, or a hard disk, whichever the bytes pass."""

_COSTS = list(Cost)


def summarise(
    plan: Plan,
    survey: Survey,  # noqa: ARG001 - free memory will come from it
    resolved: Resolved,
    shapes: Mapping[str, ModelShape],
) -> tuple[GangSummary, ...]:
    """Return a summary of every placement that the plan touches."""
    names = dict.fromkeys(change.gang for change in plan.changes if change.gang is not None)
    found = []
    for name in names:
        members = [change for change in plan.changes if change.gang == name]
        if any(change.pending or change.action is Action.BLOCKED for change in members):
            found.append(_summary(name, members, resolved, shapes))
    return tuple(found)


def _summary(
    name: str, members: Sequence[Change], resolved: Resolved, shapes: Mapping[str, ModelShape]
) -> GangSummary:
    item = resolved.placements.get(name)
    cost = max((change.cost for change in members), key=_COSTS.index)
    action = _action(members)
    own = [change for change in members if change.action not in (Action.NONE, Action.RESTART)]
    reasons = tuple(dict.fromkeys(reason for change in own for reason in change.reasons))
    head = next(
        (change for change in members if change.kind == "server" and change.desired is not None), None
    )
    restarting = action is Action.UPDATE and cost is not Cost.NOTHING
    seconds = None
    if item is not None and action is not Action.REMOVE and cost is not Cost.NOTHING:
        size = shapes[item.model].size
        seconds = round(SECONDS_PER_START + size / BYTES_PER_SECOND)
    return GangSummary(
        placement=name,
        action=action,
        position=resolved.cluster.source.position(("placements", name)) if item is not None else None,
        reasons=reasons,
        outage=cost.value if restarting else "",
        cost=cost,
        seconds=seconds,
        rows=_rows(head) if head is not None and _table_due(head) else (),
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
    """Return True at the first apply and when layers move."""
    if head.desired is None or not head.pending:
        return False
    if head.mark is None:
        return True
    old, new = head.mark.spec["settings"], head.desired.spec["settings"]
    return bool(old["layers"] != new["layers"] or old["devices"] != new["devices"])


def _rows(head: Change) -> tuple[DeviceRow, ...]:
    if head.desired is None:
        return ()
    settings = head.desired.spec["settings"]
    layers: Mapping[str, int] = settings["layers"]
    devices = [device for device in settings["devices"] if device in layers]
    rows = []
    for index, device in enumerate(devices):
        last = "+out" if index == len(devices) - 1 else ""
        rows.append(DeviceRow(device=device, layers=f"{layers[device]}{last}"))
    if "cpu" in layers:
        rows.insert(0, DeviceRow(device=f"{head.node}/cpu", layers=str(layers["cpu"])))
    if not devices:
        rows.append(DeviceRow(device=f"{head.node}/cpu", layers="all"))
    return tuple(rows)
