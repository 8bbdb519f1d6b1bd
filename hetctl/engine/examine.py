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
from hetctl.resources.provider import DesiredState, NodeObservation, Plan, Provider, Purpose, Survey


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


def survey(provider: Provider, sessions: Sessions, *, write: bool = False) -> Survey:
    """Read every node that is open, and the nodes that only member records know.

    Arguments:
        provider: The cluster.
        sessions: Open sessions of the declared nodes; those of recorded ones are added.
        write: Whether added sessions may change things.
    """
    readings = dict(_read(provider, sessions, set()))
    recorded = [target for target in provider.recorded_targets(readings) if target.node not in sessions.open]
    declared = {target.node for target in provider.targets()}
    recorded = [target for target in recorded if target.node not in declared]
    if recorded:
        sessions.add([target for target in recorded if target.node not in sessions.unknown], write=write)
        readings.update(_read(provider, sessions, set(readings)))
    return Survey(
        readings=readings,
        unknown=dict(sessions.unknown),
        undeclared=frozenset((*readings, *sessions.unknown)) - declared,
    )


def _read(provider: Provider, sessions: Sessions, known: set[str]) -> Mapping[str, Any]:
    fresh = {node: session for node, session in sessions.open.items() if node not in known}
    outcomes = for_each(fresh, lambda _, session: provider.read(session))
    _give_up(sessions, outcomes.errors)
    return outcomes.results


def _give_up(sessions: Sessions, errors: Mapping[str, HetctlError]) -> None:
    """Move nodes that failed to answer from the open sessions to the unknown ones."""
    for node, error in errors.items():
        sessions.unknown[node] = error
        sessions.open.pop(node).close()


def examine(
    provider: Provider, sessions: Sessions, *, purpose: Purpose = Purpose.APPLY, write: bool = False
) -> Situation:
    """Read the nodes through their open sessions and make the plan; nothing is written.

    A node that fails to answer at any point is unknown in the plan.
    """
    seen = survey(provider, sessions, write=write)
    state = provider.desired(seen) if purpose is Purpose.APPLY else DesiredState(resources=())
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
        return provider.observe(
            sessions.open[node], reading, here, undeclared(reading.marks, here, state.renamed)
        )

    outcomes = for_each(dict(seen.readings), ask)
    _give_up(sessions, outcomes.errors)
    return outcomes.results


def undeclared(
    marks: Mapping[Address, Mark], wanted: list[Desired], renamed: Mapping[Address, Address]
) -> list[Mark]:
    """Return the marks of a node that no desired resource of that node claims, under its new or its old name."""
    claimed = {desired.address for desired in wanted}
    claimed |= {renamed[desired.address] for desired in wanted if desired.address in renamed}
    return [mark for address, mark in sorted(marks.items()) if address not in claimed]


def _why(error: HetctlError) -> str:
    return f"{error.what}: {error.why}" if error.why else error.what
