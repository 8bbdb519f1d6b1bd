"""What `-o json` prints: versioned documents; `hetctl.report.schemas` describes them.

Within a format version fields are only ever added.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field

from hetctl.engine.diagram import Diagram
from hetctl.engine.inquiry import StatusResult
from hetctl.engine.operations import ApplyResult
from hetctl.engine.outcome import RunReport
from hetctl.engine.plan import count
from hetctl.engine.unlock import Locks, Unlocked
from hetctl.errors import ExitCode
from hetctl.report.outcome import standing_endpoints
from hetctl.report.parts import (
    ChangePart,
    CountsPart,
    EndpointPart,
    ErrorPart,
    FindingPart,
    GatePart,
    HeldLockPart,
    Part,
    PlacementPart,
    PlacementStatusPart,
    StepPart,
    VertexPart,
)
from hetctl.resources.base import Step
from hetctl.resources.provider import Plan
from hetctl.resources.view import Answer, JournalLine, JournalSource


class Document(Part):
    """A whole document."""

    format_version: Literal[1] = 1

    def text(self) -> str:
        """Return the document as indented JSON with a newline at its end."""
        return json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"

    def line(self) -> str:
        """Return the document as one line of JSON with a newline at its end."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False) + "\n"


class PlanDocument(Document):
    """What `diff` prints, and what `diff --save` keeps for `apply`."""

    cluster: str
    manifest: str = Field(description="Path of the manifest.")
    purpose: Literal["apply", "destroy"]
    manifest_digest: str
    fingerprint: str = Field(
        description="Of everything the plan rests on; `apply` of a saved plan compares it."
    )
    counts: CountsPart
    placements: tuple[PlacementPart, ...]
    changes: tuple[ChangePart, ...]
    nodes_read: tuple[str, ...]
    nodes_unknown: dict[str, str]
    gates: tuple[GatePart, ...]
    findings: tuple[FindingPart, ...]
    targets: tuple[str, ...] = Field(description="What the plan was limited to; empty for nothing.")
    left_out: int = Field(description="Pending changes outside of the targets.")

    @classmethod
    def of(cls, plan: Plan, manifest: str) -> PlanDocument:
        """Return the document for a plan made from the manifest at a path."""
        counts = count(plan)
        return cls(
            cluster=plan.cluster,
            manifest=manifest,
            purpose=plan.purpose.value,
            manifest_digest=plan.manifest_digest,
            fingerprint=plan.fingerprint,
            counts=CountsPart(
                add=counts.add,
                change=counts.change,
                remove=counts.remove,
                unknown=counts.unknown,
                blocked=counts.blocked,
                waiting=counts.waiting,
            ),
            placements=tuple(PlacementPart.of(summary) for summary in plan.gangs),
            changes=tuple(ChangePart.of(change, plan) for change in plan.changes),
            nodes_read=plan.nodes_read,
            nodes_unknown=dict(plan.nodes_unknown),
            gates=tuple(GatePart.of(gate) for gate in plan.gates),
            findings=tuple(FindingPart.of(finding) for finding in plan.findings),
            targets=plan.targets,
            left_out=plan.left_out,
        )


class ErrorDocument(Document):
    """What any command prints when it fails."""

    error: ErrorPart
    exit_code: int

    @classmethod
    def of(cls, error: BaseException, code: ExitCode) -> ErrorDocument:
        """Return the document for an error."""
        return cls(error=ErrorPart.of(error), exit_code=int(code))


class ApplyDocument(Document):
    """What `apply` and `destroy` print."""

    plan: PlanDocument
    executed: bool = Field(description="False when there was nothing to do or the plan was refused.")
    declined: bool = Field(description="True when the user said no.")
    interrupted: bool
    steps: tuple[StepPart, ...]
    endpoints: tuple[EndpointPart, ...]
    exit_code: int

    @classmethod
    def of(cls, result: ApplyResult, manifest: str, code: ExitCode) -> ApplyDocument:
        """Return the document for the result of an apply or a destroy."""
        report = result.report or RunReport(())
        return cls(
            plan=PlanDocument.of(result.situation.plan, manifest),
            executed=result.report is not None,
            declined=result.declined,
            interrupted=report.interrupted,
            steps=tuple(StepPart.of(outcome) for outcome in report.outcomes),
            endpoints=tuple(EndpointPart.of(endpoint) for endpoint in standing_endpoints(result)),
            exit_code=int(code),
        )


class StatusDocument(Document):
    """What `status` prints."""

    cluster: str
    placements: tuple[PlacementStatusPart, ...]
    nodes_unknown: dict[str, str]
    exit_code: int

    @classmethod
    def of(cls, status: StatusResult, code: ExitCode) -> StatusDocument:
        """Return the document for a status."""
        return cls(
            cluster=status.cluster,
            placements=tuple(PlacementStatusPart.of(placement) for placement in status.placements),
            nodes_unknown={node: error.what for node, error in status.unknown.items()},
            exit_code=int(code),
        )


class GraphDocument(Document):
    """What `graph` prints."""

    title: str
    vertices: tuple[VertexPart, ...]
    edges: tuple[tuple[str, str], ...] = Field(description="(from, to): `from` depends on `to`.")

    @classmethod
    def of(cls, diagram: Diagram) -> GraphDocument:
        """Return the document for a graph."""
        return cls(
            title=diagram.title,
            vertices=tuple(VertexPart.of(vertex) for vertex in diagram.vertices),
            edges=diagram.edges,
        )


class LocksDocument(Document):
    """What `unlock` prints."""

    cluster: str
    held: tuple[HeldLockPart, ...] = Field(description="As it was before anything was ended.")
    free: tuple[str, ...] = Field(description="Nodes whose lock was free.")
    ended: dict[str, tuple[str, ...]] = Field(description="By node the processes that were ended.")
    still_held: dict[str, str] = Field(description="By node why a lock could not be freed.")
    nodes_unknown: dict[str, str]
    exit_code: int

    @classmethod
    def of(cls, found: Locks, done: Unlocked, code: ExitCode) -> LocksDocument:
        """Return the document for the locks of a cluster."""
        return cls(
            cluster=found.cluster,
            held=tuple(HeldLockPart.of(holding) for holding in found.held),
            free=found.free,
            ended=dict(done.ended),
            still_held={node: error.what for node, error in done.errors.items()},
            nodes_unknown={node: error.what for node, error in found.unknown.items()},
            exit_code=int(code),
        )


class AnswerDocument(Document):
    """What `ask` prints."""

    placement: str
    model: str
    text_: str = Field(alias="text")
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float | None
    cut: bool = Field(description="The answer reached --max-tokens.")

    @classmethod
    def of(cls, answer: Answer, placement: str) -> AnswerDocument:
        """Return the document for an answer."""
        return cls(
            placement=placement,
            model=answer.model,
            text_=answer.text,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            seconds=answer.seconds,
            cut=answer.cut,
        )


class LogDocument(Document):
    """One line of what `logs` prints."""

    placement: str
    node: str
    address: str
    unit: str
    time: float = Field(description="Seconds since the epoch by the node's clock.")
    message: str

    @classmethod
    def of(cls, source: JournalSource, line: JournalLine, placement: str) -> LogDocument:
        """Return the document for a journal line."""
        return cls(
            placement=placement,
            node=source.node,
            address=source.address,
            unit=source.unit,
            time=line.time,
            message=line.message,
        )


class EventDocument(Document):
    """One line of what `apply --events` writes."""

    event: Literal["began", "started", "progressed", "ended", "interrupted", "finished"]
    time: str = Field(description="UTC, ISO 8601.")
    step: str | None = None
    address: str | None = None
    node: str | None = None
    message: str | None = None
    done: float | None = None
    total: float | None = None
    unit: str | None = None
    outcome: StepPart | None = None
    steps: tuple[str, ...] | None = Field(default=None, description="With `began`: names of all steps.")
    count: int | None = Field(default=None, description="With `interrupted`: how often.")

    @classmethod
    def about(cls, event: Any, time: str, step: Step, **fields: Any) -> EventDocument:
        """Return the document for an event of a step."""
        return cls(event=event, time=time, step=step.name, address=step.address, node=step.node, **fields)
