"""Back to the generation of a placement that was proved before the present one. Pure.

What the previous generation refers to, builds and models, is never collected: going back needs no transfer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hetctl.resources.base import Desired, Mark
from hetctl.resources.provider import DesiredState, Survey
from hetctl.rules.finding import Finding, Severity

Spec = Mapping[str, Any]


def rolled_back(state: DesiredState, survey: Survey, placement: str) -> DesiredState:
    """Return the desired state with a placement as it was before.

    The server's previous generation decides; a worker or packet filter is taken as it is or as it was,
    whichever belongs to that.

    Arguments:
        state: What the manifest wants.
        survey: What the nodes said.
        placement: Of a declared placement.
    """
    marks: dict[str, Mark] = {}
    for reading in survey.readings.values():
        marks |= reading.marks
    server = _previous(marks.get(f"server/{placement}"))
    if server is None:
        return _refused(state, placement, "there is no earlier generation of it")
    if lost := [worker["address"] for worker in server["workers"] if worker["address"] not in marks]:
        return _refused(state, placement, f"{', '.join(lost)} of it was removed since")
    resources: list[Desired] = []
    for item in state.resources:
        if item.gang != placement and item.spec.get("placement") != placement:
            resources.append(item)
            continue
        spec = server if item.kind == "server" else _of_that_time(marks.get(item.address), server)
        if spec is None:
            return _refused(state, placement, f"what {item.address} was then is not known any more")
        if missing := set(spec.get("secret_files", {})) - set(item.secrets):
            return _refused(state, placement, f"it needs the secret {', '.join(sorted(missing))}")
        resources.append(replace(item, spec=spec, position=None, explain={}))
    return replace(state, resources=tuple(resources), findings=_other(state.findings, placement))


def _previous(mark: Mark | None) -> Spec | None:
    previous = mark.facts.get("previous") if mark is not None else None
    found: Spec | None = previous["spec"] if previous else None
    return found


def _of_that_time(mark: Mark | None, server: Spec) -> Spec | None:
    """Return the spec of a worker or packet filter, present or previous, that belongs to a server's."""
    if mark is None:
        return None
    belongs: Callable[[Spec, Spec], bool] = _serves if mark.kind == "worker" else _guards
    for spec in (mark.spec, _previous(mark)):
        if spec is not None and belongs(spec, {**server, "address": mark.address, "node": mark.node}):
            return spec
    return None


def _serves(spec: Spec, server: Spec) -> bool:
    ends = [worker for worker in server["workers"] if worker["address"] == server["address"]]
    same = [(end["listen"], end["port"]) == (spec["listen"], spec["port"]) for end in ends]
    return all(same) and (not ends or spec["build"] == server["build"])


def _guards(spec: Spec, server: Spec) -> bool:
    here: Sequence[int] = [worker["port"] for worker in server["workers"] if worker["node"] == server["node"]]
    return all(str(port) in spec["ports"] for port in here)


def _refused(state: DesiredState, placement: str, why: str) -> DesiredState:
    finding = Finding(
        code="NOTHING_TO_ROLL_BACK",
        severity=Severity.ERROR,
        where=f"placement {placement}",
        what="it cannot go back to its previous generation",
        why=why,
        fix="put the earlier values into the manifest and apply it",
    )
    return replace(state, findings=(*state.findings, finding))


def _other(findings: Sequence[Finding], placement: str) -> tuple[Finding, ...]:
    """Return the findings without those about what the manifest wants of the placement."""
    about = {f"placement {placement}", f"server/{placement}"}
    return tuple(finding for finding in findings if finding.where not in about)
