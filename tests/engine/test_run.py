from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetctl.engine.graph import DependencyCycle
from hetctl.engine.interrupt import Interrupts
from hetctl.engine.outcome import Result, RunReport, Silent, StepOutcome
from hetctl.engine.run import PATIENCE, run
from hetctl.engine.sessions import Sessions
from hetctl.errors import (
    ExitCode,
    GateReached,
    Interrupted,
    NodeUnreachable,
    OperationFailed,
    SessionLost,
    worst,
)
from hetctl.resources.base import Step, StepContext

DEADLINE = 20.0


def step(
    name: str,
    node: str = "a",
    do: Callable[[StepContext], None] = lambda _: None,
    *,
    needs: Iterable[str] = (),
    after: Iterable[str] = (),
    also: Iterable[str] = (),
    rescues: Iterable[str] = (),
    interruptible: bool = True,
    address: str = "",
) -> Step:
    return Step(
        name=name,
        address=address or name,
        node=node,
        run=do,
        needs=frozenset(needs),
        after=frozenset(after),
        interruptible=interruptible,
        also=frozenset(also),
        rescues=frozenset(rescues),
    )


def fail(_: StepContext) -> None:
    raise OperationFailed("no")


def results(report: RunReport) -> dict[str, Result]:
    return {outcome.step.name: outcome.result for outcome in report.outcomes}


def because(report: RunReport) -> dict[str, str]:
    return {outcome.step.name: outcome.because for outcome in report.outcomes if outcome.because}


def wait(event: threading.Event) -> None:
    assert event.wait(DEADLINE)


def test_needs_come_first_and_everything_is_done() -> None:
    seen: list[str] = []
    steps = [
        step("server", "a", lambda _: seen.append("server"), needs=["worker"]),
        step("worker", "b", lambda _: seen.append("worker")),
    ]
    report = run(steps, Sessions())
    assert seen == ["worker", "server"]
    assert [outcome.step.name for outcome in report.outcomes] == ["server", "worker"]
    assert worst(report.exit_codes()) is ExitCode.DONE


def test_nodes_work_at_the_same_time() -> None:
    here, there = threading.Event(), threading.Event()

    def meet(mine: threading.Event, other: threading.Event) -> Callable[[StepContext], None]:
        def do(_: StepContext) -> None:
            mine.set()
            wait(other)

        return do

    report = run([step("x", "a", meet(here, there)), step("y", "b", meet(there, here))], Sessions())
    assert set(results(report).values()) == {Result.DONE}


def test_a_node_does_one_thing_at_a_time() -> None:
    busy = {"a": threading.Lock(), "b": threading.Lock()}

    def occupy(*nodes: str) -> Callable[[StepContext], None]:
        def do(_: StepContext) -> None:
            for node in nodes:
                assert busy[node].acquire(blocking=False)
            time.sleep(0.01)
            for node in nodes:
                busy[node].release()

        return do

    steps = [step(f"a{index}", "a", occupy("a")) for index in range(4)]
    steps += [step(f"copy{index}", "b", occupy("a", "b"), also=["a"]) for index in range(4)]
    report = run(steps, Sessions())
    assert set(results(report).values()) == {Result.DONE}, [outcome.error for outcome in report.outcomes]


def test_a_failure_takes_its_dependents_and_nothing_else() -> None:
    steps = [
        step("build", "a", fail),
        step("worker", "a", needs=["build"]),
        step("server", "b", needs=["worker"]),
        step("other", "b"),
    ]
    report = run(steps, Sessions())
    assert results(report) == {
        "build": Result.FAILED,
        "worker": Result.SKIPPED,
        "server": Result.SKIPPED,
        "other": Result.DONE,
    }
    assert because(report) == {"worker": "build failed", "server": "build failed"}
    assert worst(report.exit_codes()) is ExitCode.APPLIED_IN_PART


def test_after_waits_for_the_end_good_or_bad() -> None:
    seen: list[str] = []

    def stumble(_: StepContext) -> None:
        seen.append("first")
        raise OperationFailed("no")

    steps = [step("then", "b", lambda _: seen.append("then"), after=["first"]), step("first", "a", stumble)]
    report = run(steps, Sessions())
    assert seen == ["first", "then"]
    assert results(report)["then"] is Result.DONE


def test_fail_fast_starts_nothing_new() -> None:
    steps = [step("bad", "a", fail), step("next", "a"), step("skipped", "b", needs=["bad"])]
    report = run(steps, Sessions(), fail_fast=True)
    assert results(report) == {"bad": Result.FAILED, "next": Result.NOT_REACHED, "skipped": Result.SKIPPED}


def test_a_gate_stops_what_comes_after_it() -> None:
    def gate(_: StepContext) -> None:
        raise GateReached("reboot atlas")

    report = run([step("bind", "a", gate), step("vm", "a", needs=["bind"]), step("other", "a")], Sessions())
    assert results(report) == {"bind": Result.GATE, "vm": Result.SKIPPED, "other": Result.DONE}
    assert worst(report.exit_codes()) is ExitCode.GATE


def test_a_rescue_runs_after_a_failure_and_only_then() -> None:
    switch = [step("stop"), step("start", do=fail, needs=["stop"]), step("prove", needs=["start"])]
    rescue = step("go back", rescues=["stop", "start", "prove"])
    assert results(run([rescue, *switch], Sessions())) == {
        "stop": Result.DONE,
        "start": Result.FAILED,
        "prove": Result.SKIPPED,
        "go back": Result.DONE,
    }
    fine = [step("stop"), step("start", needs=["stop"])]
    rescue = step("go back", rescues=["stop", "start"])
    assert results(run([rescue, *fine], Sessions())) == dict.fromkeys(["stop", "start"], Result.DONE)


def test_nothing_is_rescued_that_never_began() -> None:
    steps = [
        step("prepare", do=fail),
        step("stop", needs=["prepare"]),
        step("go back", rescues=["stop"]),
    ]
    assert results(run(steps, Sessions())) == {
        "prepare": Result.FAILED,
        "stop": Result.SKIPPED,
    }


def test_steps_of_an_unreachable_node_are_skipped() -> None:
    sessions = Sessions(unknown={"b": NodeUnreachable("no", where="b")})
    report = run([step("x", "a"), step("y", "b"), step("z", "a", also=["b"])], sessions)
    assert results(report) == {"x": Result.DONE, "y": Result.SKIPPED, "z": Result.SKIPPED}
    assert because(report)["y"] == "b could not be reached"


def test_a_lost_connection_skips_the_rest_of_that_node_only() -> None:
    def lose(_: StepContext) -> None:
        raise SessionLost("gone", where="a")

    report = run([step("x", "a", lose), step("y", "a"), step("z", "b")], Sessions())
    assert results(report) == {"x": Result.FAILED, "y": Result.SKIPPED, "z": Result.DONE}
    assert because(report) == {"y": "the connection to a was lost"}
    assert {ExitCode.UNREACHABLE, ExitCode.APPLIED_IN_PART} <= set(report.exit_codes())


def test_a_copy_that_loses_its_other_end_blames_that_node() -> None:
    def lose(_: StepContext) -> None:
        raise SessionLost("gone", where="b")

    report = run([step("copy", "a", lose, also=["b"]), step("x", "a"), step("y", "b")], Sessions())
    assert results(report) == {"copy": Result.FAILED, "x": Result.DONE, "y": Result.SKIPPED}


def test_a_bug_is_kept_and_the_rest_goes_on() -> None:
    def bug(_: StepContext) -> None:
        raise ZeroDivisionError

    report = run([step("x", "a", bug), step("y", "a")], Sessions())
    assert results(report) == {"x": Result.FAILED, "y": Result.DONE}
    assert [type(error) for error in report.bugs] == [ZeroDivisionError]
    assert worst(report.exit_codes()) is ExitCode.BUG


@pytest.mark.parametrize(
    "steps",
    [
        [step("x"), step("x")],
        [step("x", needs=["y"])],
        [step("x", after=["y"])],
    ],
)
def test_steps_that_make_no_sense_are_a_bug(steps: list[Step]) -> None:
    with pytest.raises(ValueError, match="step"):
        run(steps, Sessions())


def test_steps_in_a_circle_are_named() -> None:
    with pytest.raises(DependencyCycle):
        run([step("x", needs=["y"]), step("y", after=["x"])], Sessions())


def test_one_interrupt_lets_running_steps_know_and_starts_nothing() -> None:
    interrupts = Interrupts()

    def upload(context: StepContext) -> None:
        interrupts.interrupt()
        if context.interrupted():
            raise Interrupted("stopped in the middle")

    steps = [step("upload", "a", upload), step("next", "a"), step("last", "a", needs=["next"])]
    report = run(steps, Sessions(), interrupts=interrupts)
    assert results(report) == {
        "upload": Result.STOPPED,
        "next": Result.NOT_REACHED,
        "last": Result.NOT_REACHED,
    }
    assert worst(report.exit_codes()) is ExitCode.INTERRUPTED


def test_a_gang_that_began_to_switch_is_switched_to_the_end() -> None:
    interrupts = Interrupts()
    steps = [
        step("stop chat", "a", lambda _: interrupts.interrupt(), interruptible=False, address="chat"),
        step("start worker", "b", needs=["stop chat"], interruptible=False, address="chat"),
        step("start server", "a", needs=["start worker"], interruptible=False, address="chat"),
        step("stop other", "b", after=["start worker"], interruptible=False, address="other"),
        step("upload", "a", after=["start server"], address="chat"),
    ]
    report = run(steps, Sessions(), interrupts=interrupts)
    assert results(report) == {
        "stop chat": Result.DONE,
        "start worker": Result.DONE,
        "start server": Result.DONE,
        "stop other": Result.NOT_REACHED,
        "upload": Result.NOT_REACHED,
    }


def test_an_interrupt_before_the_switch_leaves_the_gang_alone() -> None:
    interrupts = Interrupts()
    steps = [
        step("build", "a", lambda _: interrupts.interrupt()),
        step("stop chat", "a", needs=["build"], interruptible=False, address="chat"),
    ]
    assert results(run(steps, Sessions(), interrupts=interrupts)) == {
        "build": Result.DONE,
        "stop chat": Result.NOT_REACHED,
    }


def test_two_interrupts_end_it_now() -> None:
    interrupts, release, begun = Interrupts(), threading.Event(), threading.Event()
    closed: list[str] = []

    class Closing:
        node = "a"
        peer_address = ""

        def call(self, operation: str, *_: Any, **__: Any) -> dict[str, Any]:
            raise AssertionError(operation)

        def close(self) -> None:
            closed.append("a")
            release.set()

    def hang(_: StepContext) -> None:
        begun.set()
        interrupts.interrupt()
        interrupts.interrupt()
        wait(release)

    started = time.monotonic()
    report = run(
        [step("switch", "a", hang, interruptible=False), step("next", "a")],
        Sessions(open={"a": Closing()}),
        interrupts=interrupts,
    )
    assert time.monotonic() - started < DEADLINE / 2
    assert results(report) == {"switch": Result.STOPPED, "next": Result.NOT_REACHED}
    assert closed == ["a"]
    assert begun.is_set()


class Hanging:
    """A session whose closing hangs too, as that of a node which is silent does."""

    node = "a"
    peer_address = ""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def call(self, operation: str, *_: Any, **__: Any) -> dict[str, Any]:
        raise AssertionError(operation)

    def close(self) -> None:
        self.closed.set()
        time.sleep(DEADLINE)


def test_one_interrupt_is_enough_for_a_node_that_is_silent() -> None:
    interrupts, session = Interrupts(), Hanging()

    def hang(_: StepContext) -> None:
        interrupts.interrupt()
        time.sleep(DEADLINE)

    started = time.monotonic()
    report = run(
        [step("upload", "a", hang), step("next", "a"), step("go back", "a", rescues=["next"])],
        Sessions(open={"a": session}),
        interrupts=interrupts,
    )
    assert time.monotonic() - started < 5.0
    assert results(report) == {"upload": Result.STOPPED, "next": Result.NOT_REACHED}
    assert session.closed.is_set()


def test_a_gang_that_switches_is_waited_for_and_so_is_what_goes_on_beside_it() -> None:
    interrupts = Interrupts()

    def slow(_: StepContext) -> None:
        interrupts.interrupt()
        time.sleep(PATIENCE + 2.5)

    steps = [
        step("upload", "b", lambda _: time.sleep(PATIENCE + 1.5)),
        step("stop chat", "a", slow, interruptible=False, address="chat"),
        step("start worker", "b", needs=["stop chat"], interruptible=False, address="chat"),
    ]
    report = run(steps, Sessions(), interrupts=interrupts)
    assert results(report) == dict.fromkeys(["upload", "stop chat", "start worker"], Result.DONE)


class Recorder(Silent):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.threads: set[int] = set()

    def _note(self, text: str) -> None:
        self.threads.add(threading.get_ident())
        self.events.append(text)

    def started(self, step: Step) -> None:
        self._note(f"started {step.name}")

    def progressed(
        self, step: Step, message: str, done: float | None, total: float | None, unit: str
    ) -> None:
        self._note(f"{step.name}: {message} {done}/{total} {unit}")

    def ended(self, outcome: StepOutcome) -> None:
        self._note(f"{outcome.result} {outcome.step.name}")


def test_reporters_hear_everything_in_one_thread() -> None:
    recorder = Recorder()
    steps = [
        step("x", "a", lambda context: context.progress("copying", done=1, total=2, unit="files")),
        step("y", "a", fail, needs=["x"]),
    ]
    run(steps, Sessions(), reporter=recorder)
    assert recorder.events == ["started x", "x: copying 1/2 files", "done x", "started y", "failed y"]
    assert recorder.threads == {threading.get_ident()}


@st.composite
def work(draw: st.DrawFn) -> tuple[list[Step], set[str]]:
    size = draw(st.integers(1, 10))
    bad = {f"s{index}" for index in range(size) if draw(st.integers(0, 4)) == 0}
    steps = [
        step(
            f"s{index}",
            draw(st.sampled_from("abc")),
            fail if f"s{index}" in bad else lambda _: None,
            needs=[f"s{other}" for other in range(index) if draw(st.integers(0, 3)) == 0],
            after=[f"s{other}" for other in range(index) if draw(st.integers(0, 5)) == 0],
        )
        for index in range(size)
    ]
    return list(draw(st.permutations(steps))), bad


@given(work())
@settings(deadline=None, max_examples=150)
def test_exactly_the_dependents_of_a_failure_are_skipped(case: tuple[list[Step], set[str]]) -> None:
    steps, bad = case
    recorder = Recorder()
    outcome = results(run(steps, Sessions(), reporter=recorder))
    by_name = {item.name: item for item in steps}

    def doomed(name: str) -> bool:
        return any(need in bad or doomed(need) for need in by_name[name].needs)

    for name in by_name:
        expected = Result.SKIPPED if doomed(name) else Result.FAILED if name in bad else Result.DONE
        assert outcome[name] is expected
    ended: set[str] = set()
    for event in recorder.events:
        verb, _, name = event.partition(" ")
        if verb == "started":
            assert by_name[name].needs | by_name[name].after <= ended
        else:
            ended.add(name)
