"""Parts of the JSON documents."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from hetctl.engine.diagram import Vertex
from hetctl.engine.outcome import StepOutcome
from hetctl.engine.unlock import Holding
from hetctl.errors import HetctlError, ManifestInvalid, Position
from hetctl.resources.base import Change, Reason
from hetctl.resources.provider import (
    DeviceRow,
    GangSummary,
    Gate,
    Plan,
)
from hetctl.resources.view import Endpoint, MemberStatus, PlacementStatus
from hetctl.rules.finding import Finding


class Part(BaseModel):
    """A part of a document: camelCase outside, nothing unknown inside."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        extra="forbid",
        frozen=True,
        json_schema_serialization_defaults_required=True,
    )


class PlacePart(Part):
    """A place in a manifest: line and column count from 1, 0 when only the file is known."""

    file: str
    line: int
    column: int

    @classmethod
    def of(cls, position: Position | None) -> PlacePart | None:
        """Return the part for a position, None for none."""
        return (
            None if position is None else cls(file=position.file, line=position.line, column=position.column)
        )


class ReasonPart(Part):
    """Why something changes."""

    text: str
    position: PlacePart | None = None
    drift: bool = Field(description="True when the node differs from what was applied, not the manifest.")

    @classmethod
    def of(cls, reason: Reason) -> ReasonPart:
        """Return the part for a reason."""
        return cls(text=reason.text, position=PlacePart.of(reason.position), drift=reason.drift)


class ChangePart(Part):
    """One resource of a plan."""

    address: str
    kind: str
    node: str
    action: Literal["none", "create", "update", "restart", "rename", "remove", "forget", "unknown", "blocked"]
    cost: str = Field(description="What it interrupts, from `nothing` to `manual`.")
    reasons: tuple[ReasonPart, ...]
    details: tuple[str, ...]
    fix: str = Field(description="For `blocked`: what clears the way.")
    placement: str | None = Field(description="The placement whose members stop and start together.")
    depends_on: tuple[str, ...]
    waits_for: str = Field(description="What keeps it from being executed; empty for nothing.")
    generation: int | None = Field(description="Of the mark the node carries; null when there is none.")

    @classmethod
    def of(cls, change: Change, plan: Plan) -> ChangePart:
        """Return the part for a change of `plan`."""
        return cls(
            address=change.address,
            kind=change.kind,
            node=change.node,
            action=change.action.value,
            cost=change.cost.value,
            reasons=tuple(ReasonPart.of(reason) for reason in change.reasons),
            details=change.details,
            fix=change.fix,
            placement=change.gang,
            depends_on=change.depends_on,
            waits_for=plan.waits_for(change),
            generation=change.mark.generation if change.mark else None,
        )


class FindingPart(Part):
    """Something manifest, facts and catalogue say together."""

    code: str
    severity: Literal["info", "warning", "error"]
    where: str
    what: str
    why: str
    fix: str
    position: PlacePart | None = None

    @classmethod
    def of(cls, finding: Finding) -> FindingPart:
        """Return the part for a finding."""
        return cls(
            code=finding.code,
            severity=finding.severity.value,
            where=finding.where,
            what=finding.what,
            why=finding.why,
            fix=finding.fix,
            position=PlacePart.of(finding.position),
        )


class GatePart(Part):
    """A reboot or a manual step that comes before the rest."""

    name: str
    node: str
    what: str
    fix: str
    after: tuple[str, ...]

    @classmethod
    def of(cls, gate: Gate) -> GatePart:
        """Return the part for a gate."""
        return cls(name=gate.name, node=gate.node, what=gate.what, fix=gate.fix, after=gate.after)


class DevicePart(Part):
    """One line of a card table; sizes in bytes, null where no estimate exists."""

    device: str
    layers: str
    weights: int | None
    kv: int | None
    compute: int | None
    free_after: int | None

    @classmethod
    def of(cls, row: DeviceRow) -> DevicePart:
        """Return the part for a row."""
        return cls(
            device=row.device,
            layers=row.layers,
            weights=row.weights,
            kv=row.kv,
            compute=row.compute,
            free_after=row.free_after,
        )


class PlacementPart(Part):
    """What a plan means for one placement."""

    placement: str
    action: str
    reasons: tuple[ReasonPart, ...]
    outage: str
    cost: str
    seconds: float | None = Field(description="Estimate of the time it is down.")
    devices: tuple[DevicePart, ...]

    @classmethod
    def of(cls, summary: GangSummary) -> PlacementPart:
        """Return the part for a summary."""
        return cls(
            placement=summary.placement,
            action=summary.action.value,
            reasons=tuple(ReasonPart.of(reason) for reason in summary.reasons),
            outage=summary.outage,
            cost=summary.cost.value,
            seconds=summary.seconds,
            devices=tuple(DevicePart.of(row) for row in summary.rows),
        )


class CountsPart(Part):
    """How many resources a plan touches."""

    add: int
    change: int
    remove: int
    unknown: int
    blocked: int
    waiting: int


class ProblemPart(Part):
    """One thing wrong with a manifest."""

    code: str
    message: str
    position: PlacePart
    source_line: str
    hint: str


class ErrorPart(Part):
    """An error: what, where, why, and how to fix it."""

    type: str = Field(description="Name of the error class.")
    what: str
    where: str
    why: str
    fix: str
    problems: tuple[ProblemPart, ...] = ()

    @classmethod
    def of(cls, error: BaseException) -> ErrorPart:
        """Return the part for an error; anything but a HetctlError is a bug."""
        if not isinstance(error, HetctlError):
            return cls(
                type=type(error).__name__, what=str(error), where="", why="a bug in hetctl", fix="report it"
            )
        problems = error.problems if isinstance(error, ManifestInvalid) else ()
        return cls(
            type=type(error).__name__,
            what=error.what,
            where=error.where,
            why=error.why,
            fix=error.fix,
            problems=tuple(
                ProblemPart(
                    code=problem.code,
                    message=problem.message,
                    position=PlacePart(
                        file=problem.position.file, line=problem.position.line, column=problem.position.column
                    ),
                    source_line=problem.source_line,
                    hint=problem.hint,
                )
                for problem in problems
            ),
        )


class StepPart(Part):
    """What became of one step."""

    name: str
    address: str
    node: str
    result: Literal["done", "failed", "gate", "skipped", "stopped", "not reached"]
    seconds: float
    because: str
    error: ErrorPart | None = None

    @classmethod
    def of(cls, outcome: StepOutcome) -> StepPart:
        """Return the part for an outcome."""
        return cls(
            name=outcome.step.name,
            address=outcome.step.address,
            node=outcome.step.node,
            result=outcome.result.value,
            seconds=round(outcome.seconds, 3),
            because=outcome.because,
            error=None if outcome.error is None else ErrorPart.of(outcome.error),
        )


class EndpointPart(Part):
    """Where a placement answers."""

    placement: str
    url: str
    model: str
    key_reference: str
    task: str
    certificate: str

    @classmethod
    def of(cls, endpoint: Endpoint) -> EndpointPart:
        """Return the part for an endpoint."""
        return cls(
            placement=endpoint.placement,
            url=endpoint.url,
            model=endpoint.model,
            key_reference=endpoint.key_reference,
            task=endpoint.task,
            certificate=endpoint.certificate,
        )


class MemberPart(Part):
    """One worker or server of a placement."""

    address: str
    node: str
    health: Literal["ready", "starting", "stopped", "failed", "absent", "unknown"]
    detail: str

    @classmethod
    def of(cls, member: MemberStatus) -> MemberPart:
        """Return the part for a member."""
        return cls(address=member.address, node=member.node, health=member.health.value, detail=member.detail)


class PlacementStatusPart(Part):
    """How a placement is."""

    placement: str
    health: Literal["ready", "starting", "stopped", "failed", "absent", "unknown"]
    detail: str
    fix: str
    members: tuple[MemberPart, ...]
    endpoint: EndpointPart | None = None

    @classmethod
    def of(cls, status: PlacementStatus) -> PlacementStatusPart:
        """Return the part for a status."""
        return cls(
            placement=status.placement,
            health=status.health.value,
            detail=status.detail,
            fix=status.fix,
            members=tuple(MemberPart.of(member) for member in status.members),
            endpoint=None if status.endpoint is None else EndpointPart.of(status.endpoint),
        )


class VertexPart(Part):
    """A resource or a step in a graph."""

    name: str
    label: str
    node: str
    action: str = Field(description="What happens to it; empty for a step.")

    @classmethod
    def of(cls, vertex: Vertex) -> VertexPart:
        """Return the part for a vertex."""
        return cls(name=vertex.name, label=vertex.label, node=vertex.node, action=vertex.action)


class HeldLockPart(Part):
    """The lock of a node while somebody holds it."""

    node: str
    who: str = Field(description="User and machine that run hetctl.")
    command: str
    cluster: str
    since: str
    manifest: str
    commit: str
    process: int | None = Field(description="Number of the process on the node.")
    silent_seconds: float = Field(description="Since that process heard from its operator.")
    abandoned: bool = Field(description="Its operator is gone.")

    @classmethod
    def of(cls, holding: Holding) -> HeldLockPart:
        """Return the part for a lock that is held."""
        who = holding.holder
        texts = {key: str(who.get(key) or "") for key in ("who", "command", "cluster", "since", "manifest")}
        return cls(
            node=holding.node,
            **texts,
            commit=str(who.get("commit") or ""),
            process=who.get("pid"),
            silent_seconds=round(holding.silent, 1),
            abandoned=holding.abandoned,
        )
