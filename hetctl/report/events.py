"""A run as JSON lines, for programs that watch it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TextIO

from hetctl.engine.outcome import RunReport, StepOutcome
from hetctl.report.documents import EventDocument
from hetctl.report.parts import StepPart
from hetctl.resources.base import Step


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class EventWriter:
    """Writes each event as one line, at once.

    Arguments:
        stream: An open text file.
        now: Returns the time, for tests.
    """

    def __init__(self, stream: TextIO, now: Callable[[], str] = _now) -> None:
        self._stream = stream
        self._now = now

    def _write(self, event: EventDocument) -> None:
        self._stream.write(event.line())
        self._stream.flush()

    def began(self, steps: Sequence[Step]) -> None:
        """Write the names of all steps."""
        self._write(EventDocument(event="began", time=self._now(), steps=tuple(step.name for step in steps)))

    def started(self, step: Step) -> None:
        """Write that a step begins."""
        self._write(EventDocument.about("started", self._now(), step))

    def progressed(
        self, step: Step, message: str, done: float | None, total: float | None, unit: str
    ) -> None:
        """Write how a step is going."""
        self._write(
            EventDocument.about(
                "progressed", self._now(), step, message=message, done=done, total=total, unit=unit or None
            )
        )

    def ended(self, outcome: StepOutcome) -> None:
        """Write what became of a step."""
        self._write(EventDocument.about("ended", self._now(), outcome.step, outcome=StepPart.of(outcome)))

    def interrupted(self, count: int) -> None:
        """Write that the user asked to stop."""
        self._write(EventDocument(event="interrupted", time=self._now(), count=count))

    def tick(self) -> None:
        """Write nothing: time passes for programs as well."""

    def finished(self, report: RunReport) -> None:  # noqa: ARG002 - every step has ended in a line of its own
        """Write that the run is over."""
        self._write(EventDocument(event="finished", time=self._now()))
