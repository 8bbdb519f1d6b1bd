from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import pytest

from hetctl.engine.outcome import Reporter, Result, RunReport, StepOutcome
from hetctl.errors import OperationFailed
from hetctl.report.events import EventWriter
from hetctl.report.progress import (
    HEARTBEAT,
    LiveProgress,
    PlainProgress,
    Together,
    amount,
    interrupt_text,
    progress_for,
)
from hetctl.report.terminal import PLAIN, Terminal
from hetctl.resources.base import Step

BUILD = Step(name="compile build/main", address="build/main", node="atlas", run=lambda _: None)
FETCH = Step(name="fetch model/gemma", address="model/gemma", node="", run=lambda _: None)
FAILED = StepOutcome(BUILD, Result.FAILED, 70.0, error=OperationFailed("no"))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def play(reporter: Reporter) -> None:
    reporter.began([BUILD, FETCH])
    reporter.started(BUILD)
    reporter.started(FETCH)
    reporter.progressed(BUILD, "compiling", 120.0, 400.0, "files")
    reporter.progressed(FETCH, "downloading", float(1 << 30), float(1 << 31), "B")
    reporter.interrupted(1)
    reporter.ended(FAILED)
    reporter.ended(StepOutcome(FETCH, Result.DONE, 3.0))
    reporter.finished(RunReport((FAILED,)))


def test_plain_lines() -> None:
    stream = io.StringIO()
    play(PlainProgress(stream, PLAIN))
    assert stream.getvalue().splitlines() == [
        "2 steps to run",
        "atlas: compile build/main",
        "this machine: fetch model/gemma",
        "stopping: nothing new begins, waiting for 2 running steps; Ctrl-C again stops now",
        "atlas: compile build/main: failed, 70 s",
        "this machine: fetch model/gemma: done, 3.0 s",
    ]


def test_a_sign_of_life_every_fifteen_seconds_and_no_more() -> None:
    stream, clock = io.StringIO(), Clock()
    reporter = PlainProgress(stream, PLAIN, clock=clock)
    reporter.began([BUILD])
    reporter.started(BUILD)
    reporter.progressed(BUILD, "compiling", 120.0, 400.0, "files")
    stream.truncate(0)
    for second in range(1, 41):
        clock.now = float(second)
        reporter.tick()
    assert HEARTBEAT == 15
    lines = stream.getvalue().lstrip("\0").splitlines()
    assert lines == [
        "still running: atlas: compile build/main (15 s; compiling, 120 of 400 files)",
        "still running: atlas: compile build/main (30 s; compiling, 120 of 400 files)",
    ]


def test_no_sign_of_life_when_nothing_lives() -> None:
    stream, clock = io.StringIO(), Clock()
    reporter = PlainProgress(stream, PLAIN, clock=clock)
    clock.now = 100.0
    reporter.tick()
    assert stream.getvalue() == ""


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_live_display_leaves_what_ended(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict", write_through=True)
    play(LiveProgress(stream, Terminal(colour=False, live=True, width=100)))
    text = raw.getvalue().decode(encoding)
    assert "atlas: compile build/main: failed, 70 s" in text
    assert "this machine: fetch model/gemma: done, 3.0 s" in text
    assert "Ctrl-C again stops now" in text


def test_the_display_fits_the_place() -> None:
    assert isinstance(progress_for(io.StringIO(), Terminal(live=True)), LiveProgress)
    assert isinstance(progress_for(io.StringIO(), PLAIN), PlainProgress)


def test_events_are_json_lines_at_once() -> None:
    stream = io.StringIO()
    play(EventWriter(stream, now=lambda: "2026-01-01T00:00:00.000+00:00"))
    events: list[Mapping[str, Any]] = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["event"] for event in events] == [
        "began",
        "started",
        "started",
        "progressed",
        "progressed",
        "interrupted",
        "ended",
        "ended",
        "finished",
    ]
    assert events[0]["steps"] == ["compile build/main", "fetch model/gemma"]
    assert events[3]["done"] == 120
    assert events[6]["outcome"]["result"] == "failed"
    assert events[6]["outcome"]["error"]["what"] == "no"
    assert all(event["formatVersion"] == 1 for event in events)


def test_two_can_watch() -> None:
    lines, events = io.StringIO(), io.StringIO()
    together = Together(PlainProgress(lines, PLAIN), EventWriter(events))
    play(together)
    together.tick()
    assert len(lines.getvalue().splitlines()) == 6
    assert len(events.getvalue().splitlines()) == 9


@pytest.mark.parametrize(
    ("done", "total", "unit", "text"),
    [
        (None, None, "", ""),
        (120, 400, "files", "120 of 400 files"),
        (3, None, "requests", "3 requests"),
        (1 << 30, 1 << 31, "B", "1.0 GiB of 2.0 GiB"),
        (1 << 30, None, "bytes", "1.0 GiB"),
    ],
)
def test_amounts(done: float | None, total: float | None, unit: str, text: str) -> None:
    assert amount(done, total, unit) == text


def test_what_ctrl_c_does() -> None:
    assert "nothing is running" in interrupt_text(1, 0)
    assert "stopping now" in interrupt_text(2, 3)
