"""Kind `predecessor`: what a placement takes the place of, stopped with the operator's consent.

It is no work of hetctl's, so nothing of it is changed but that it runs and starts at boot. Both are restored
when the placement does not pass its proof at the switch, and when the placement goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetctl.errors import OperationFailed
from hetctl.manifest.placements import Replaces
from hetctl.resources import layout, marks
from hetctl.resources.base import Change, Cost, Desired, Mark, Observed, Reason, StepContext
from hetctl.resources.comparison import change_for, removal
from hetctl.resources.work import Work, begin, finish, salvaged_paths, standing, wanted
from hetctl.transport.base import Json, Session

DEADLINE = 180.0
"""Seconds: a container gets ten before it is killed, a unit what its file says."""


def predecessor_address(placement: str) -> str:
    """Return the resource address of what a placement replaces."""
    return f"predecessor/{placement}"


def named(replaces: Replaces) -> tuple[str, str]:
    """Return what kind of thing is replaced, and its name."""
    found = {"unit": replaces.unit, "container": replaces.container, "process": replaces.process}
    return next((kind, name) for kind, name in found.items() if name is not None)


def predecessor_spec(cluster: str, placement: str, replaces: Replaces) -> dict[str, Json]:
    """Return the spec of what a placement replaces."""
    kind, name = named(replaces)
    return {
        "placement": placement,
        "kind": kind,
        "name": name,
        "record": layout.predecessor_path(cluster, placement, f"{kind}:{name}"),
    }


class PredecessorKind:
    """Something of somebody else's that has to make room."""

    name = "predecessor"

    def objects(self, desired: Desired) -> Sequence[Mapping[str, Json]]:
        """Return what is replaced."""
        return [_object(desired.spec)]

    def compare(self, desired: Desired, observed: Observed) -> Change:
        """Return what it takes to have it out of the way."""
        spec = desired.spec
        return change_for(
            desired,
            observed,
            drift=_drift(observed),
            cost=Cost.NOTHING,
            rendered=("record",),
            details=(f"stop and disable {spec['kind']} {spec['name']}",),
        )

    def remove(self, mark: Mark, observed: Observed) -> Change:
        """Return the change that brings it back."""
        return removal(mark, observed)


def _object(spec: Mapping[str, Json]) -> Mapping[str, Json]:
    return {"type": "predecessor", "kind": spec["kind"], "name": spec["name"]}


def _drift(observed: Observed) -> list[Reason]:
    if observed.mark is None or observed.unknown:
        return []
    reasons = []
    for item, state in zip(observed.mark.objects, observed.states, strict=False):
        for key, text in (("running", "runs again"), ("enabled", "starts at boot again")):
            if state.get(key):
                reasons.append(Reason(f"{item['kind']} {item['name']} {text}", drift=True))
    return reasons


def retire(work: Work, context: StepContext, change: Change) -> None:
    """Stop what is replaced; what it was is kept on the node."""
    session, spec = context.sessions[change.node], wanted(change).spec
    begin(work, session, change)
    if change.mark is not None and _same(change.mark.spec, spec):
        _move(session, change.mark.spec["record"], spec["record"])
    arguments = {"kind": spec["kind"], "name": spec["name"], "record": spec["record"]}
    was = session.call("retire", arguments, deadline=DEADLINE)
    facts = {"was": was} if change.mark is None else {"was": change.mark.facts.get("was", was)}
    finish(work, session, change, objects=[_object(spec)], facts=facts)


def give_back(work: Work, context: StepContext, change: Change) -> None:
    """Bring back what this very run stopped, after the placement did not pass its proof.

    What was stopped for the placement under an earlier name stays so, and is recorded under that again.
    """
    session, desired = context.sessions[change.node], wanted(change)
    if change.mark is None:
        session.call("revive", {"record": desired.spec["record"]}, deadline=DEADLINE)
        session.call("remove_mark", {"cluster": work.cluster, "address": desired.address})
    elif change.mark.stored is not None and _same(change.mark.spec, desired.spec):
        _move(session, desired.spec["record"], change.mark.spec["record"])
        marks.store(session, change.mark.stored)
        if (change.mark.stored.cluster, change.mark.stored.address) != (work.cluster, desired.address):
            session.call("remove_mark", {"cluster": work.cluster, "address": desired.address})


def _same(spec: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    return (spec["kind"], spec["name"]) == (other["kind"], other["name"])


def _move(session: Session, old: str, new: str) -> None:
    """Give the record of what was replaced another name; it may have it already.

    Raises:
        OperationFailed: The node could not.
    """
    if old == new:
        return
    there = session.call("observe", {"objects": [{"type": "file", "path": old}]})["states"][0]
    if not there.get("exists"):
        return
    session.call("make_directories", {"paths": [{"path": new.rpartition("/")[0], "mode": 0o755}]})
    answer = session.call("run", {"argv": ["mv", "--no-clobber", "--", old, new], "env": {}})
    if answer["exit"] != 0:
        raise OperationFailed("a record could not be moved", where=session.node, why=str(answer["stderr"]))


def revive(work: Work, context: StepContext, change: Change) -> None:
    """Bring back what was replaced, unless the placement that took its place stays."""
    session, mark = context.sessions[change.node], standing(change)
    records = [mark.spec["record"]] if "record" in mark.spec else salvaged_paths(session, mark)
    if mark.spec["placement"] in work.declared:
        session.call("remove", {"paths": records, "empty_directories": []})
    else:
        for record in records:
            session.call("revive", {"record": record}, deadline=DEADLINE)
    marks.erase(session, mark)
