"""Make a plan: compare what is wanted with what is there. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hetctl.engine.graph import dependency_order
from hetctl.resources.base import (
    Action,
    Address,
    Change,
    Desired,
    Kind,
    Mark,
    Observed,
    Reason,
    unknown_change,
)
from hetctl.resources.provider import (
    DesiredState,
    NodeObservation,
    Plan,
    Purpose,
)

Key = tuple[Address, str]
"""A resource on a node: while a placement moves, one address stands on two nodes."""


@dataclass(frozen=True, slots=True)
class PlanCounts:
    """How many resources a plan touches, for its closing line."""

    add: int
    change: int
    remove: int
    unknown: int
    blocked: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the nodes said.

    Arguments:
        observations: By node, for nodes that answered.
        damaged: By node and address: marks that could not be read, and why.
        unknown: Nodes that did not answer, and why.
        undeclared_nodes: Nodes that only a member record knows.
    """

    observations: Mapping[str, NodeObservation]
    damaged: Mapping[str, Mapping[Address, str]] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    undeclared_nodes: frozenset[str] = frozenset()


def count(plan: Plan) -> PlanCounts:
    """Return how many resources the plan touches."""
    actions = [change.action for change in plan.changes]
    return PlanCounts(
        add=actions.count(Action.CREATE),
        change=sum(actions.count(each) for each in (Action.UPDATE, Action.RESTART, Action.RENAME)),
        remove=actions.count(Action.REMOVE),
        unknown=actions.count(Action.UNKNOWN),
        blocked=actions.count(Action.BLOCKED),
        waiting=len(plan.waits),
    )


def make_plan(
    *,
    cluster: str,
    manifest_digest: str,
    state: DesiredState,
    evidence: Evidence,
    kinds: Mapping[str, Kind],
    purpose: Purpose = Purpose.APPLY,
    together: Callable[[Sequence[Change]], Sequence[Change]] = lambda changes: changes,
) -> Plan:
    """Compare every desired resource, and remove every one of ours that is not desired.

    Nothing is created, changed or removed on the strength of what could not be read: a resource there is
    UNKNOWN, and a change that needs it, or shares a placement with it, waits.

    Arguments:
        cluster: Name of the cluster.
        manifest_digest: Of the manifest's content.
        state: What is wanted.
        evidence: What the nodes said.
        kinds: The kinds of the resources by name.
        purpose: Why the plan is made.
        together: Turns gang members that need no change of their own to RESTART, as in `Provider`.

    Raises:
        DependencyCycle: The desired resources depend on each other in a circle.
    """
    compared = [_compare(desired, evidence, kinds) for desired in state.resources]
    leaving = [
        _remove(observed.mark, node, observed, kinds)
        for node, observation in sorted(evidence.observations.items())
        for _, observed in sorted(observation.undeclared.items())
        if observed.mark is not None
    ]
    regarded = together([*compared, *leaving])
    wanted, leaving = list(regarded[: len(compared)]), list(regarded[len(compared) :])
    declared = {(desired.address, desired.node) for desired in state.resources}
    damaged = [
        _damaged(address, node, why, leaving)
        for node, marks in sorted(evidence.damaged.items())
        for address, why in sorted(marks.items())
        if (address, node) not in declared
    ]
    left_behind = [
        _left_behind(node, why)
        for node, why in sorted(evidence.unknown.items())
        if purpose is Purpose.DESTROY or node in evidence.undeclared_nodes
    ]
    changes = (*_forward(wanted), *_backward(leaving), *damaged, *left_behind)
    return Plan(
        cluster=cluster,
        manifest_digest=manifest_digest,
        purpose=purpose,
        changes=changes,
        nodes_read=tuple(sorted(evidence.observations)),
        nodes_unknown=dict(sorted(evidence.unknown.items())),
        waits=_waits(changes, evidence.unknown, _gated(state)),
        findings=state.findings,
        gates=state.gates,
    )


def _compare(desired: Desired, evidence: Evidence, kinds: Mapping[str, Kind]) -> Change:
    if desired.node in evidence.unknown:
        return unknown_change(desired, f"node {desired.node} could not be read")
    observation = evidence.observations.get(desired.node)
    observed = observation.desired.get(desired.address) if observation else None
    if observed is None:
        return unknown_change(desired, f"node {desired.node} was not asked about it")
    if observed.unknown:
        return unknown_change(desired, observed.unknown)
    change = kinds[desired.kind].compare(desired, observed)
    why = evidence.damaged.get(desired.node, {}).get(desired.address)
    if why is not None and change.action is Action.CREATE:
        # What is declared is known without its mark, so it is made again; what is not declared stays unknown.
        change = replace(change, reasons=(Reason(f"its mark was damaged: {why}", drift=True),))
    # The order rests on what is declared, so a kind can't lose it on the way.
    return replace(change, desired=desired, gang=desired.gang, depends_on=desired.depends_on)


def _remove(mark: Mark, node: str, observed: Observed, kinds: Mapping[str, Kind]) -> Change:
    kind = kinds.get(mark.kind)
    why = observed.unknown or ("" if kind else f"this version of hetctl does not know the kind {mark.kind!r}")
    if kind is None or why:
        return Change(
            address=mark.address,
            kind=mark.kind,
            node=node,
            action=Action.UNKNOWN,
            mark=mark,
            reasons=(Reason(f"not declared any more, but {why}"),),
            gang=mark.gang,
            depends_on=mark.depends_on,
        )
    change = kind.remove(mark, observed)
    # The mark may carry the name the node had in an earlier manifest.
    return replace(change, node=node, mark=mark, gang=mark.gang, depends_on=mark.depends_on)


def _damaged(address: Address, node: str, why: str, leaving: Sequence[Change]) -> Change:
    """Return the change of a damaged mark: it may use anything there that belongs to no placement."""
    return Change(
        address=address,
        kind=address.partition("/")[0],
        node=node,
        action=Action.UNKNOWN,
        reasons=(Reason(f"not declared, and its mark is damaged: {why}"),),
        depends_on=tuple(change.address for change in leaving if change.node == node and change.gang is None),
    )


def _left_behind(node: str, why: str) -> Change:
    return Change(
        address=f"node/{node}",
        kind="node",
        node=node,
        action=Action.FORGET,
        reasons=(Reason(f"could not be read, so it stays recorded: {why}"),),
    )


def _forward(changes: Sequence[Change]) -> list[Change]:
    by_key = {_key(change): change for change in changes}
    nodes_of = _nodes_by_address(changes)
    depends_on = {
        _key(change): [(other, node) for other in change.depends_on for node in nodes_of.get(other, ())]
        for change in changes
    }
    return [by_key[key] for key in dependency_order(list(by_key), depends_on)]


def _backward(changes: Sequence[Change]) -> list[Change]:
    return list(reversed(_forward(list(reversed(changes)))))


def _nodes_by_address(changes: Sequence[Change]) -> dict[Address, list[str]]:
    nodes: dict[Address, list[str]] = {}
    for change in changes:
        nodes.setdefault(change.address, []).append(change.node)
    return nodes


def _key(change: Change) -> Key:
    return change.address, change.node


def _gated(state: DesiredState) -> dict[Address, str]:
    return {address: f"gate {gate.name}" for gate in state.gates for address in gate.after}


def _waits(
    changes: Sequence[Change], unknown_nodes: Mapping[str, str], gated: Mapping[Address, str]
) -> dict[Key, str]:
    """Return what each pending change waits for.

    A change waits when something it depends on is unknown, blocked, waiting or not there yet; when a member
    of its gang is; and, for a removal, when something that may still use the resource is.
    """
    present = {change.address for change in changes if change.action is not Action.REMOVE}
    held: dict[Key, str] = {}
    spreading: deque[Change] = deque()
    for change in changes:
        why = _what_holds(change, unknown_nodes) or _what_lacks(change, present, gated)
        if why:
            held[_key(change)] = why
            spreading.append(change)
    held_up_by = _neighbours(changes)
    while spreading:
        change = spreading.popleft()
        for other in held_up_by(change):
            if _key(other) not in held:
                held[_key(other)] = held[_key(change)]
                spreading.append(other)
    return {_key(change): held[_key(change)] for change in changes if change.pending and _key(change) in held}


def _what_holds(change: Change, unknown_nodes: Mapping[str, str]) -> str:
    if change.action is Action.UNKNOWN:
        return f"node {change.node}" if change.node in unknown_nodes else f"{change.address} (unknown)"
    if change.action is Action.BLOCKED:
        return f"{change.address} (blocked)"
    return ""


def _what_lacks(change: Change, present: Collection[Address], gated: Mapping[Address, str]) -> str:
    """Return what a pending change needs that nobody plans."""
    if not change.pending or change.action is Action.REMOVE:
        return ""
    missing = next((address for address in change.depends_on if address not in present), None)
    return "" if missing is None else gated.get(missing, f"{missing} (not planned)")


def _neighbours(changes: Sequence[Change]) -> Callable[[Change], list[Change]]:
    """Return a function that names the pending changes that wait when a given one is held up."""
    mates: dict[str, list[Change]] = {}
    users: dict[Address, list[Change]] = {}
    leaving: dict[Address, list[Change]] = {}
    for change in changes:
        if not change.pending:
            continue
        if change.gang is not None:
            mates.setdefault(change.gang, []).append(change)
        if change.action is Action.REMOVE:
            leaving.setdefault(change.address, []).append(change)
            continue
        for address in change.depends_on:
            users.setdefault(address, []).append(change)

    def held_up_by(change: Change) -> list[Change]:
        found = list(mates.get(change.gang, ())) if change.gang is not None else []
        if change.action is not Action.REMOVE:
            found += users.get(change.address, ())
        used = {*change.depends_on, *(change.mark.depends_on if change.mark is not None else ())}
        for address in sorted(used):
            found += leaving.get(address, ())
        return found

    return held_up_by
