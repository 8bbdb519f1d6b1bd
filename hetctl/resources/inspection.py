"""Looking at placements without changing anything: how they are, what they log, what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hetctl.errors import DeadlineExceeded, HetctlError, OperationFailed
from hetctl.manifest.references import DeviceKind, Resolved
from hetctl.resources import layout, proof
from hetctl.resources.activity import PROCESSES, runs
from hetctl.resources.base import Desired
from hetctl.resources.firewall import FAMILY
from hetctl.resources.gang import api_of
from hetctl.resources.provider import DesiredState, Survey
from hetctl.resources.reading import NodeReading
from hetctl.resources.topology import worker_address
from hetctl.resources.view import (
    Health,
    JournalLine,
    JournalSource,
    MemberStatus,
    PlacementStatus,
)
from hetctl.resources.watch import RESTARTING
from hetctl.transport.base import Json, Session

LIVENESS_DEADLINE = 30.0
"""Seconds one token may take before a placement counts as hung."""

FOLLOW_DEADLINE = 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class MemberState:
    """What a node says of one worker or server, or of a packet filter that is not in force.

    Arguments:
        address: Its resource address.
        marked: False when it was never applied there.
        stopped: It was stopped with hetctl.
        unit: systemd's view of it; empty for a packet filter.
        failure: What is wrong with it apart from that; empty when nothing is or it was not asked.
        watched: When and why its watch restarted the server last; empty when it did not.
    """

    address: str
    marked: bool
    unit: Mapping[str, Json]
    stopped: bool = False
    failure: str = ""
    watched: str = ""


def status_part(
    session: Session, reading: NodeReading, desired: Sequence[Desired]
) -> Mapping[str, MemberState]:
    """Return how the processes of one node are; a server that runs is asked for a token."""
    members = [item for item in desired if item.kind in PROCESSES]
    filters = [item for item in desired if item.kind == "firewall" and item.address in reading.marks]
    if not members:
        return {}
    marks = reading.marks  # what is to be renamed still stands under the name its mark says
    specs = [marks[item.address].spec if item.address in marks else item.spec for item in members]
    units = [{"type": "unit", "name": spec["unit"]} for spec in specs]
    names = [marks[item.address].spec["table"] for item in filters]
    tables = [{"type": "nft_table", "family": FAMILY, "name": name} for name in names]
    states = session.call("observe", {"objects": [*units, *tables]})["states"]
    found = {
        item.address: MemberState(item.address, marked=True, unit={}, failure=_unguarded(item))
        for item, state in zip(filters, states[len(members) :], strict=True)
        if not state.get("exists") and item.spec["ports"]
    }
    for item, state in zip(members, states, strict=False):
        mark = reading.marks.get(item.address)
        failure = watched = ""
        if mark is not None and item.kind == "server":
            if state.get("active") == "active":
                failure = _liveness(session, mark.spec)
            if int(state.get("restarts") or 0):
                watched = _last_intervention(session, mark.spec)
        stopped = mark is not None and not runs(mark.spec)
        found[item.address] = MemberState(
            item.address, mark is not None, state, stopped=stopped, failure=failure, watched=watched
        )
    return found


def _unguarded(item: Desired) -> str:
    return (
        f"nftables table {item.spec['table']} is missing: {', '.join(item.spec['ports'])} open to everybody"
    )


def _last_intervention(session: Session, spec: Mapping[str, Json]) -> str:
    """Return when and why the watch restarted a server last; empty when it did not."""
    watch = spec.get("watch")
    if watch is None:
        return ""
    asked = {"unit": watch["unit"], "lines": 1, "follow": False, "grep": RESTARTING}
    for line in session.call("journal", asked, deadline=60)["lines"]:
        when = datetime.fromtimestamp(float(line["time"]), UTC)
        return f"{when:%Y-%m-%d %H:%M} UTC, {str(line['message']).partition(': ')[2]}"
    return ""


def _liveness(session: Session, spec: Mapping[str, Json]) -> str:
    """Return why a running server does not do its task; empty when it does."""
    ready = {**spec["ready"], "expect": None}
    try:
        proof.prove_task(session, api_of(spec), ready, model=spec["alias"], deadline=LIVENESS_DEADLINE)
    except (OperationFailed, DeadlineExceeded) as error:
        return f"{error.what}: {error.why}" if error.why else error.what
    return ""


def placement_status(
    placements: Sequence[str],
    survey: Survey,
    state: DesiredState,
    parts: Mapping[str, Mapping[str, MemberState]],
    manifest: str,
) -> tuple[PlacementStatus, ...]:
    """Return how the declared placements are, from what the nodes said."""
    endpoints = {endpoint.placement: endpoint for endpoint in state.endpoints}
    result = []
    for name in placements:
        members = tuple(
            _member(item, survey, parts)
            for item in state.resources
            if item.gang == name and item.kind in PROCESSES
        ) + tuple(
            MemberStatus(item.address, item.node, Health.FAILED, parts[item.node][item.address].failure)
            for item in state.resources
            if item.kind == "firewall"
            and item.spec["placement"] == name
            and item.address in parts.get(item.node, {})
        )
        health, detail = _overall(members)
        result.append(
            PlacementStatus(
                placement=name,
                health=health,
                detail=detail,
                members=members,
                endpoint=endpoints.get(name),
                fix=_next_command(name, health, detail, manifest),
            )
        )
    return tuple(result)


def _member(item: Desired, survey: Survey, parts: Mapping[str, Mapping[str, MemberState]]) -> MemberStatus:
    state = parts.get(item.node, {}).get(item.address)
    if state is None:
        why = survey.unknown.get(item.node)
        detail = why.what if isinstance(why, HetctlError) else f"node {item.node} was not read"
        return MemberStatus(item.address, item.node, Health.UNKNOWN, detail)
    active, unit = state.unit.get("active"), state.unit
    if not state.marked:
        return MemberStatus(item.address, item.node, Health.ABSENT, "never applied")
    if active in ("inactive", "failed") and not runs(item.spec):
        return MemberStatus(item.address, item.node, Health.STOPPED, "stopped, as declared")
    if active in ("inactive", "failed") and state.stopped:
        return MemberStatus(item.address, item.node, Health.FAILED, BY_HAND)
    restarts = int(unit.get("restarts") or 0)
    detail = f"{unit.get('active')} ({unit.get('sub')}), process {unit.get('main_pid') or '-'}"
    detail += f", {restarts} restarts" if restarts else ""
    detail += f", restarted by its watch: {state.watched}" if state.watched else ""
    if active == "active" and not state.failure:
        return MemberStatus(item.address, item.node, Health.READY, detail)
    if active == "activating":
        return MemberStatus(item.address, item.node, Health.STARTING, detail)
    return MemberStatus(item.address, item.node, Health.FAILED, state.failure or detail)


BY_HAND = "stopped by hand, and declared running"


def _next_command(placement: str, health: Health, detail: str, manifest: str) -> str:
    if health.healthy:
        return ""
    return f"hetctl start {placement}" if detail.endswith(BY_HAND) else f"hetctl diff {manifest}"


_WORST_FIRST = (Health.FAILED, Health.UNKNOWN, Health.ABSENT, Health.STARTING, Health.STOPPED, Health.READY)


def _overall(members: Sequence[MemberStatus]) -> tuple[Health, str]:
    if not members:
        return Health.ABSENT, "nothing is declared for it"
    worst = min(members, key=lambda member: _WORST_FIRST.index(member.health))
    return worst.health, "" if worst.health.healthy else f"{worst.address}: {worst.detail}"


def journal_sources(resolved: Resolved, placement: str) -> list[JournalSource]:
    """Return the units of a placement, the server and its watch first."""
    item = resolved.placements[placement]
    cluster = resolved.cluster.name
    sources = [
        JournalSource(item.head, f"server/{placement}", layout.unit_name(cluster, placement, role))
        for role in ("server", "watch")
    ]
    for device in item.devices:
        part = device.name if device.kind is DeviceKind.CPU_WORKER else ""
        remote_gpu = device.kind is DeviceKind.GPU and device.node != item.head
        if device.kind is DeviceKind.CPU_WORKER or remote_gpu:
            source = JournalSource(
                device.node,
                worker_address(placement, device.node, part),
                layout.unit_name(cluster, placement, "worker", part=part),
            )
            if source not in sources:
                sources.append(source)
    return sources


def journal(
    session: Session,
    source: JournalSource,
    *,
    lines: int,
    follow: bool,
    emit: Callable[[JournalLine], None],
) -> None:
    """Emit the last entries of a unit, oldest first; with `follow`, go on until the session is closed."""

    def tell(entry: Mapping[str, Any]) -> None:
        emit(JournalLine(time=float(entry["time"]), message=str(entry["message"])))

    answer = session.call(
        "journal",
        {"unit": source.unit, "lines": lines, "follow": follow},
        deadline=FOLLOW_DEADLINE if follow else 60.0,
        on_event=tell if follow else None,
    )
    for entry in answer["lines"]:
        tell(entry)
