"""What became of each step, and what a run reports while it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from hetctl.errors import ExitCode, GateReached, HetctlError, Interrupted
from hetctl.resources.base import Step


class Result(StrEnum):
    """What became of a step."""

    DONE = "done"
    FAILED = "failed"
    GATE = "gate"  # a reboot or a manual step comes first
    SKIPPED = "skipped"  # because of another one
    STOPPED = "stopped"  # began and ended early, by Ctrl-C: the next apply goes on with it
    NOT_REACHED = "not reached"
    NOT_NEEDED = "not needed"  # a rescue that nothing called for: left out of reports


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What became of one step.

    Arguments:
        step: The step.
        result: What became of it.
        seconds: How long it ran; 0 when it never began.
        because: For SKIPPED, what kept it from running, such as `build llama on atlas failed`.
        error: For FAILED and GATE: what it raised. Anything but a HetctlError is a bug of ours.
    """

    step: Step
    result: Result
    seconds: float = 0.0
    because: str = ""
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class RunReport:
    """What became of all steps, in the order of the plan.

    Arguments:
        outcomes: One for each step.
        interrupted: True when the user asked to stop.
        lost: Nodes whose connection was lost, and how.
    """

    outcomes: tuple[StepOutcome, ...]
    interrupted: bool = False
    lost: Mapping[str, HetctlError] | None = None

    def with_result(self, result: Result) -> tuple[StepOutcome, ...]:
        """Return the outcomes with this result."""
        return tuple(outcome for outcome in self.outcomes if outcome.result is result)

    @property
    def bugs(self) -> tuple[BaseException, ...]:
        """Exceptions that no step should raise."""
        errors = (outcome.error for outcome in self.outcomes)
        return tuple(error for error in errors if error is not None and not isinstance(error, HetctlError))

    def exit_codes(self) -> list[ExitCode]:
        """Return every exit code that holds."""
        codes = [ExitCode.DONE]
        if self.interrupted:
            codes.append(ExitCode.INTERRUPTED)
        for outcome in self.outcomes:
            if outcome.result is Result.GATE:
                codes.append(ExitCode.GATE)
            elif outcome.result is Result.FAILED:
                codes.append(ExitCode.APPLIED_IN_PART)
        if self.bugs:
            codes.append(ExitCode.BUG)
        if self.lost:
            codes.append(ExitCode.UNREACHABLE)
        return codes


class Reporter(Protocol):
    """Watches a run. Called from the thread that called `run`, never from two at once; must not raise."""

    def began(self, steps: Sequence[Step]) -> None:
        """The run begins with these steps."""

    def started(self, step: Step) -> None:
        """A step begins."""

    def progressed(
        self, step: Step, message: str, done: float | None, total: float | None, unit: str
    ) -> None:
        """A running step says how it is going."""

    def ended(self, outcome: StepOutcome) -> None:
        """A step ended, or will never begin."""

    def interrupted(self, count: int) -> None:
        """The user asked to stop, for the `count`-th time."""

    def tick(self) -> None:
        """About a second went by."""

    def finished(self, report: RunReport) -> None:
        """The run is over."""


class Silent:
    """A reporter that says nothing."""

    def began(self, steps: Sequence[Step]) -> None:
        """Say nothing."""

    def started(self, step: Step) -> None:
        """Say nothing."""

    def progressed(
        self, step: Step, message: str, done: float | None, total: float | None, unit: str
    ) -> None:
        """Say nothing."""

    def ended(self, outcome: StepOutcome) -> None:
        """Say nothing."""

    def interrupted(self, count: int) -> None:
        """Say nothing."""

    def tick(self) -> None:
        """Say nothing."""

    def finished(self, report: RunReport) -> None:
        """Say nothing."""


def result_of(error: BaseException | None) -> Result:
    """Return what a step's ending means; `error` is what it raised, None for a good end."""
    if error is None:
        return Result.DONE
    if isinstance(error, GateReached):
        return Result.GATE
    if isinstance(error, Interrupted):
        return Result.STOPPED
    return Result.FAILED
