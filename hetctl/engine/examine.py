"""Read the nodes and make the plan: what `diff` and `apply` have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hetctl.engine.parallel import for_each
from hetctl.engine.plan import Evidence, make_plan
from hetctl.engine.sessions import Sessions
from hetctl.errors import HetctlError
from hetctl.resources.base import Address, Desired, Mark
from hetctl.resources.provider import (
    DesiredState,
    NodeObservation,
    Plan,
    Provider,
    Purpose,
    Survey,
)


@dataclass(frozen=True, slots=True)
class Situation:
    """What the nodes said, what is wanted, and the plan that follows.

    Arguments:
        survey: What all nodes said.
        state: What the manifest wants.
        plan: The difference.
    """

    survey: Survey
    state: DesiredState
    plan: Plan


def survey(provider: Provider, sessions: Sessions) -> Survey:
    """Read every node that is open, then the nodes that only their member records know.

    Arguments:
        provider: The cluster.
        sessions: Open sessions; read-only ones to recorded nodes not among them are added.
    """
    declared = {target.node for target in provider.targets()}
    readings = dict(_read(provider, sessions, set()))
    known = {*declared, *sessions.open, *sessions.unknown}
    recorded = [target for target in provider.recorded_targets(readings) if target.node not in known]
    if recorded:
        sessions.add(recorded, write=False)
        readings.update(_read(provider, sessions, set(readings)))
    seen = provider.understood(
        Survey(
            readings=readings,
            unknown=dict(sessions.unknown),
            undeclared=frozenset((*readings, *sessions.unknown)) - declared,
        )
    )
    sessions.give_up({node: error for node, error in seen.unknown.items() if node in sessions.open})
    return seen


def _read(provider: Provider, sessions: Sessions, known: set[str]) -> Mapping[str, Any]:
    fresh = {node: session for node, session in sessions.open.items() if node not in known}
    outcomes = for_each(fresh, lambda _, session: provider.read(session))
    sessions.give_up(outcomes.errors)
    return outcomes.results


def examine(provider: Provider, sessions: Sessions, purpose: Purpose = Purpose.APPLY) -> Situation:
    """Read the nodes through their open sessions and make the plan; nothing is written.

    A node that fails to answer at any point is unknown in the plan.
    """
    seen = survey(provider, sessions)
    if purpose is Purpose.DESTROY:
        seen = provider.salvaged(seen)
    state = provider.desired(seen) if purpose is Purpose.APPLY else DesiredState(resources=())
    state = replace(state, findings=(*provider.concerns(seen), *state.findings))
    observations = _observe(provider, sessions, seen, state)
    seen = replace(
        seen,
        readings={node: reading for node, reading in seen.readings.items() if node in sessions.open},
        unknown=dict(sessions.unknown),
    )
    plan = make_plan(
        cluster=provider.cluster,
        manifest_digest=provider.manifest_digest,
        state=state,
        evidence=Evidence(
            observations=observations,
            damaged={node: reading.damaged for node, reading in seen.readings.items() if reading.damaged},
            unknown={node: _why(error) for node, error in seen.unknown.items()},
            undeclared_nodes=seen.undeclared,
        ),
        kinds=provider.kinds,
        purpose=purpose,
        together=provider.together,
    )
    return Situation(seen, state, replace(plan, gangs=provider.summaries(plan, seen)))


def _observe(
    provider: Provider, sessions: Sessions, seen: Survey, state: DesiredState
) -> Mapping[str, NodeObservation]:
    wanted: dict[str, list[Desired]] = {}
    for desired in state.resources:
        wanted.setdefault(desired.node, []).append(desired)

    def ask(node: str, reading: Any) -> NodeObservation:
        here = wanted.get(node, [])
        return provider.observe(sessions.open[node], reading, here, undeclared(reading.marks, here))

    outcomes = for_each(dict(seen.readings), ask)
    sessions.give_up(outcomes.errors)
    return outcomes.results


def undeclared(marks: Mapping[Address, Mark], wanted: list[Desired]) -> list[Mark]:
    """Return the marks of a node that no desired resource there claims."""
    claimed = {desired.address for desired in wanted}
    return [mark for address, mark in sorted(marks.items()) if address not in claimed]


def _why(error: HetctlError) -> str:
    return f"{error.what}: {error.why}" if error.why else error.what
