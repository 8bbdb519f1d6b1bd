"""Run the steps of a plan: independent nodes in parallel, one step a node at a time.

A failed step takes its dependents with it and nothing else. Ctrl-C once: nothing new begins, except that a
gang which began to switch is switched to the end. Ctrl-C twice: everything ends now.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hetctl.engine.graph import dependency_order
from hetctl.engine.interrupt import Interrupts
from hetctl.engine.outcome import Reporter, Result, RunReport, Silent, StepOutcome, result_of
from hetctl.engine.parallel import CONNECTIONS
from hetctl.engine.sessions import Sessions
from hetctl.errors import HetctlError, TransportError
from hetctl.resources.base import Step, StepContext

TICK = 1.0
"""Seconds between two looks at the clock, for reporters that show time passing."""

PATIENCE = 2.0
"""Seconds after the first Ctrl-C in which work that may stop has to stop: a node that is silent or behind a
slow link cannot say that it did."""

CLOSING = 1.5
"""Seconds the sessions get to close after Ctrl-C; the end of the process closes what is left."""


@dataclass(frozen=True, slots=True)
class _Progressed:
    step: Step
    message: str
    done: float | None
    total: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class _Ended:
    step: Step
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class _Interrupted:
    pass


_Message = _Progressed | _Ended | _Interrupted


def run(
    steps: Sequence[Step],
    sessions: Sessions,
    *,
    reporter: Reporter | None = None,
    interrupts: Interrupts | None = None,
    fail_fast: bool = False,
) -> RunReport:
    """Run `steps` and return what became of each.

    Arguments:
        steps: The work; names are unique, and `needs` and `after` name others of them.
        sessions: The open sessions; steps of nodes that are unknown there are skipped.
        reporter: Told about everything as it happens.
        interrupts: Where the user's wish to stop arrives.
        fail_fast: Start nothing new after the first failure, gangs in the middle of a switch excepted.

    Raises:
        DependencyCycle: The steps wait for each other in a circle.
        ValueError: Two steps have one name, or one names a step that is not there.
    """
    return _Run(steps, sessions, reporter or Silent(), interrupts or Interrupts(), fail_fast=fail_fast).go()


class _Run:
    def __init__(
        self,
        steps: Sequence[Step],
        sessions: Sessions,
        reporter: Reporter,
        interrupts: Interrupts,
        *,
        fail_fast: bool,
    ) -> None:
        self._given = list(steps)
        self._waiting = _in_order(steps)
        self._sessions = sessions
        self._reporter = reporter
        self._interrupts = interrupts
        self._fail_fast = fail_fast
        self._running: dict[str, tuple[Step, float]] = {}
        self._outcomes: dict[str, StepOutcome] = {}
        self._lost: dict[str, HetctlError] = {}
        self._switching: set[str] = set()
        self._stoppable_since: float | None = None
        self._messages: queue.SimpleQueue[_Message] = queue.SimpleQueue()

    def go(self) -> RunReport:
        self._interrupts.listen(lambda: self._messages.put(_Interrupted()))
        self._reporter.began([step for step in self._given if not step.rescues])
        self._give_up_on_what_cannot_run()
        self._start_what_is_ready()
        last_tick = time.monotonic()
        while self._running and not self._out_of_patience():
            try:
                self._take(self._messages.get(timeout=TICK / 4 if self._interrupts.count else TICK))
            except queue.Empty:
                pass
            else:
                self._give_up_on_what_cannot_run()
                self._start_what_is_ready()
            if time.monotonic() - last_tick >= TICK:
                last_tick = time.monotonic()
                self._reporter.tick()
        if self._interrupts.count:
            self._stop_now()
        report = RunReport(
            outcomes=tuple(
                outcome
                for outcome in (self._outcomes[step.name] for step in self._given)
                if outcome.result is not Result.NOT_NEEDED
            ),
            interrupted=self._interrupts.count > 0,
            lost=dict(self._lost),
        )
        self._reporter.finished(report)
        return report

    def _take(self, message: _Message) -> None:
        match message:
            case _Progressed(step, text, done, total, unit):
                if step.name in self._running:
                    self._reporter.progressed(step, text, done, total, unit)
            case _Ended(step, error):
                _, since = self._running.pop(step.name)
                if isinstance(error, TransportError):
                    self._lost[error.where if error.where in _nodes(step) else step.node] = error
                self._end(StepOutcome(step, result_of(error), time.monotonic() - since, error=error))
            case _Interrupted():
                self._reporter.interrupted(self._interrupts.count)

    def _end(self, outcome: StepOutcome) -> None:
        self._outcomes[outcome.step.name] = outcome
        if outcome.result is not Result.NOT_NEEDED:
            self._reporter.ended(outcome)

    def _give_up_on_what_cannot_run(self) -> None:
        # The order of dependency makes one pass enough: what a step needs was looked at before it.
        for step in list(self._waiting):
            outcome = self._verdict(step)
            if outcome is not None:
                self._waiting.remove(step)
                self._end(outcome)

    def _verdict(self, step: Step) -> StepOutcome | None:
        if step.rescues:
            if not step.rescues <= self._outcomes.keys():
                return None
            if not self._called_for(step):
                return StepOutcome(step, Result.NOT_NEEDED)
        verdict = self._unreachable(step) or self._unmet(step)
        if verdict is None and self._holding and not self._continues(step):
            return StepOutcome(step, Result.NOT_REACHED)
        return verdict

    def _unreachable(self, step: Step) -> StepOutcome | None:
        for node in sorted(_nodes(step)):
            if node in self._lost:
                return StepOutcome(step, Result.SKIPPED, because=f"the connection to {node} was lost")
            if node in self._sessions.unknown:
                return StepOutcome(step, Result.SKIPPED, because=f"{node} could not be reached")
        return None

    def _unmet(self, step: Step) -> StepOutcome | None:
        for name in sorted(step.needs):
            needed = self._outcomes.get(name)
            if needed is None or needed.result is Result.DONE:
                continue
            if needed.result is Result.FAILED:
                return StepOutcome(step, Result.SKIPPED, because=f"{name} failed")
            if needed.result is Result.GATE:
                return StepOutcome(step, Result.SKIPPED, because=f"{name} stopped at a gate")
            if needed.result is Result.SKIPPED:
                return StepOutcome(step, Result.SKIPPED, because=needed.because)
            return StepOutcome(step, Result.NOT_REACHED)
        return None

    def _called_for(self, step: Step) -> bool:
        """Say whether one of the steps that `step` rescues began, and not all of them succeeded."""
        results = {self._outcomes[name].result for name in step.rescues}
        began = results & {Result.DONE, Result.FAILED, Result.GATE, Result.STOPPED}
        return bool(began) and results != {Result.DONE}

    @property
    def _holding(self) -> bool:
        failed = any(outcome.result is Result.FAILED for outcome in self._outcomes.values())
        return self._interrupts.count > 0 or (self._fail_fast and failed)

    def _continues(self, step: Step) -> bool:
        return not step.interruptible and _switch_of(step) in self._switching

    def _start_what_is_ready(self) -> None:
        busy = {node for step, _ in self._running.values() for node in _nodes(step)}
        for step in list(self._waiting):
            if len(self._running) >= CONNECTIONS:
                return
            if busy & _nodes(step) or not _waits_for(step) <= self._outcomes.keys():
                continue
            busy |= _nodes(step)
            self._waiting.remove(step)
            self._start(step)

    def _start(self, step: Step) -> None:
        if not step.interruptible:
            self._switching.add(_switch_of(step))
        self._running[step.name] = (step, time.monotonic())
        self._reporter.started(step)
        threading.Thread(target=self._work, args=(step,), name=f"hetctl {step.name}", daemon=True).start()

    def _work(self, step: Step) -> None:
        def progress(
            message: str, *, done: float | None = None, total: float | None = None, unit: str = ""
        ) -> None:
            self._messages.put(_Progressed(step, message, done, total, unit))

        context = StepContext(self._sessions.open, progress, lambda: self._interrupts.count > 0)
        error: BaseException | None = None
        try:
            step.run(context)
        except BaseException as raised:  # noqa: BLE001 - becomes the step's outcome
            error = raised
        self._messages.put(_Ended(step, error))

    def _out_of_patience(self) -> bool:
        """Say whether what still runs is left behind: at the second Ctrl-C, or when the first had no effect.

        A gang that switches is waited for, and so is everything beside it: it may need the same nodes.
        """
        if self._interrupts.count != 1:
            return self._interrupts.count > 1
        switching = any(not step.interruptible for step, _ in self._running.values())
        if switching or any(self._continues(step) for step in self._waiting):
            self._stoppable_since = None
            return False
        self._stoppable_since = self._stoppable_since or time.monotonic()
        return time.monotonic() - self._stoppable_since > PATIENCE

    def _stop_now(self) -> None:
        """Close the sessions, which ends what is still done there and gives the locks back."""
        if self._interrupts.count > 1:
            self._reporter.interrupted(self._interrupts.count)
        closing = threading.Thread(target=self._sessions.close, name="hetctl closing", daemon=True)
        closing.start()
        closing.join(CLOSING)
        for step, since in list(self._running.values()):
            self._end(StepOutcome(step, Result.STOPPED, time.monotonic() - since))
        self._running.clear()
        for step in self._waiting:
            idle = step.rescues and not self._called_for(step)
            self._end(StepOutcome(step, Result.NOT_NEEDED if idle else Result.NOT_REACHED))
        self._waiting.clear()


def _waits_for(step: Step) -> frozenset[str]:
    return step.needs | step.after | step.rescues


def _switch_of(step: Step) -> str:
    return step.switch or step.address


def _nodes(step: Step) -> set[str]:
    return {step.node, *step.also}


def _in_order(steps: Sequence[Step]) -> list[Step]:
    by_name = {step.name: step for step in steps}
    if len(by_name) != len(steps):
        names = [step.name for step in steps]
        raise ValueError(
            f"two steps have one name: {sorted({name for name in names if names.count(name) > 1})}"
        )
    for step in steps:
        missing = _waits_for(step) - by_name.keys()
        if missing:
            raise ValueError(f"step {step.name!r} waits for steps that are not there: {sorted(missing)}")
    order = dependency_order(list(by_name), {step.name: _waits_for(step) for step in steps})
    return [by_name[name] for name in order]
