"""A run while it goes on: redrawn in place on a terminal, a line at a time elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from hetctl.engine.outcome import Reporter, Result, RunReport, StepOutcome
from hetctl.report.figures import byte_size, counted, duration
from hetctl.report.terminal import Terminal
from hetctl.resources.base import Step

if TYPE_CHECKING:  # rich takes 60 ms to load, and only a terminal needs it
    from rich.progress import Progress, TaskID

HEARTBEAT = 15.0
"""Seconds between two signs of life where nothing can be redrawn: CI systems end jobs that are silent."""


@dataclass(slots=True)
class _Running:
    since: float
    message: str = ""
    done: float | None = None
    total: float | None = None
    unit: str = ""


def amount(done: float | None, total: float | None, unit: str) -> str:
    """Return how much of how much is done: `1.2 GiB of 13.5 GiB`, `120 of 400 files`; empty when unknown."""
    if done is None:
        return ""
    if unit in {"B", "bytes"}:
        return f"{byte_size(done)} of {byte_size(total)}" if total else byte_size(done)
    whole = f" of {total:g}" if total else ""
    return f"{done:g}{whole} {unit}".rstrip()


class PlainProgress:
    """A line when a step begins and ends, and one every 15 s while something runs.

    Arguments:
        stream: Where lines go: standard error.
        terminal: What can be shown.
        clock: Seconds, for tests.
    """

    def __init__(
        self, stream: TextIO, terminal: Terminal, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._terminal = terminal
        self._clock = clock
        self._running: dict[str, tuple[Step, _Running]] = {}
        self._last = clock()

    def _say(self, text: str) -> None:
        self._last = self._clock()
        # A change must not stop in the middle because nobody watches any more.
        with contextlib.suppress(OSError):
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def began(self, steps: Sequence[Step]) -> None:
        """Say how much there is to do."""
        self._say(f"{counted(len(steps), 'step')} to run")

    def started(self, step: Step) -> None:
        """Name the step."""
        self._running[step.name] = (step, _Running(self._clock()))
        self._say(f"{_place(step)}: {step.name}")

    def progressed(
        self, step: Step, message: str, done: float | None, total: float | None, unit: str
    ) -> None:
        """Remember it for the next sign of life."""
        _, running = self._running[step.name]
        running.message, running.done, running.total, running.unit = message, done, total, unit

    def ended(self, outcome: StepOutcome) -> None:
        """Say what became of the step."""
        self._running.pop(outcome.step.name, None)
        self._say(outcome_line(outcome, self._terminal))

    def interrupted(self, count: int) -> None:
        """Say what Ctrl-C does."""
        self._say(interrupt_text(count, len(self._running)))

    def tick(self) -> None:
        """Give a sign of life when nothing was said for a while."""
        if self._running and self._clock() - self._last >= HEARTBEAT:
            words = []
            for step, running in self._running.values():
                how_far = amount(running.done, running.total, running.unit)
                detail = ", ".join(part for part in (running.message, how_far) if part)
                since = duration(self._clock() - running.since)
                words.append(f"{_place(step)}: {step.name} ({since}{'; ' + detail if detail else ''})")
            self._say(f"still running: {'; '.join(words)}")

    def finished(self, report: RunReport) -> None:
        """Say nothing: the report follows."""


class LiveProgress:
    """One line a running step, redrawn in place, with bar, rate and time left; what ended scrolls away above.

    Arguments:
        stream: Where it is drawn: standard error.
        terminal: What can be shown.
    """

    def __init__(self, stream: TextIO, terminal: Terminal) -> None:
        from rich.console import Console  # noqa: PLC0415 - see above
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

        self._terminal = terminal
        console = Console(
            file=stream,
            force_terminal=True,
            no_color=not terminal.colour,
            width=terminal.width,
            highlight=False,
            markup=False,
        )
        self._progress: Progress = Progress(
            SpinnerColumn("line"),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[amount]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}

    def began(self, steps: Sequence[Step]) -> None:
        """Start drawing."""
        if steps:
            self._progress.start()

    def started(self, step: Step) -> None:
        """Add a line."""
        self._tasks[step.name] = self._progress.add_task(
            f"{_place(step)}: {step.name}", total=None, amount=""
        )

    def progressed(
        self, step: Step, message: str, done: float | None, total: float | None, unit: str
    ) -> None:
        """Redraw the step's line."""
        task = self._tasks[step.name]
        self._progress.update(
            task,
            description=f"{_place(step)}: {step.name}: {message}",
            completed=done or 0.0,
            total=total,
            amount=self._how_far(task, done, total, unit),
        )

    def _how_far(self, task: TaskID, done: float | None, total: float | None, unit: str) -> str:
        row = next(item for item in self._progress.tasks if item.id == task)
        words = [amount(done, total, unit)]
        if row.speed and unit in {"B", "bytes"}:
            words.append(f"{byte_size(row.speed)}/s")
        if row.time_remaining:
            words.append(f"{duration(row.time_remaining)} left")
        return ", ".join(word for word in words if word)

    def ended(self, outcome: StepOutcome) -> None:
        """Take the line away and leave what became of it."""
        task = self._tasks.pop(outcome.step.name, None)
        if task is not None:
            self._progress.remove_task(task)
        self._print(outcome_line(outcome, self._terminal))

    def interrupted(self, count: int) -> None:
        """Say what Ctrl-C does."""
        self._print(interrupt_text(count, len(self._tasks)))

    def _print(self, text: str) -> None:
        from rich.text import Text  # noqa: PLC0415 - see above

        self._progress.console.print(Text.from_ansi(text), soft_wrap=True)

    def tick(self) -> None:
        """Do nothing: the display has a clock of its own."""

    def finished(self, report: RunReport) -> None:  # noqa: ARG002 - the report follows as text
        """Stop drawing."""
        self._progress.stop()


class Together:
    """Several reporters of one run, so that a person and a program can watch it."""

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters

    def began(self, steps: Sequence[Step]) -> None:
        """Tell all."""
        for reporter in self._reporters:
            reporter.began(steps)

    def started(self, step: Step) -> None:
        """Tell all."""
        for reporter in self._reporters:
            reporter.started(step)

    def progressed(
        self, step: Step, message: str, done: float | None, total: float | None, unit: str
    ) -> None:
        """Tell all."""
        for reporter in self._reporters:
            reporter.progressed(step, message, done, total, unit)

    def ended(self, outcome: StepOutcome) -> None:
        """Tell all."""
        for reporter in self._reporters:
            reporter.ended(outcome)

    def interrupted(self, count: int) -> None:
        """Tell all."""
        for reporter in self._reporters:
            reporter.interrupted(count)

    def tick(self) -> None:
        """Tell all."""
        for reporter in self._reporters:
            reporter.tick()

    def finished(self, report: RunReport) -> None:
        """Tell all."""
        for reporter in self._reporters:
            reporter.finished(report)


def outcome_line(outcome: StepOutcome, terminal: Terminal) -> str:
    """Return what became of a step as one line."""
    paint = {Result.DONE: terminal.green, Result.FAILED: terminal.red}.get(outcome.result, terminal.yellow)
    text = f"{_place(outcome.step)}: {outcome.step.name}: {paint(outcome.result.value)}"
    if outcome.because:
        return f"{text} because {outcome.because}"
    if outcome.result is Result.NOT_REACHED:
        return text
    return f"{text}, {duration(outcome.seconds)}"


def interrupt_text(count: int, running: int) -> str:
    """Return what a Ctrl-C does, and what another one would do."""
    if count > 1:
        return "stopping now; the next apply goes on from what is there"
    waiting = f"waiting for {counted(running, 'running step')}" if running else "nothing is running"
    return f"stopping: nothing new begins, {waiting}; Ctrl-C again stops now"


def _place(step: Step) -> str:
    return step.node or "this machine"


def progress_for(stream: TextIO, terminal: Terminal) -> Reporter:
    """Return the reporter that fits the place text goes to."""
    return LiveProgress(stream, terminal) if terminal.live else PlainProgress(stream, terminal)
