"""One command at a time changes a host; a holder that died holds nothing."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.faults import Command
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.hosts import Lab


class Two:
    """A cluster, and two operators who want something of it at once."""

    def __init__(self, lab: Lab, first: Workplace, second: Workplace, source: Path, model: Path) -> None:
        self.lab, self.first, self.second = lab, first, second
        self._source, self._model = source, model
        self._context = 1024

    def declare(self) -> None:
        """Write, for both, a manifest that restarts the placement."""
        self._context += 256
        text = chat_manifest(
            name="den",
            head="head",
            workers=["head"],
            addresses={host.name: host.address for host in self.lab},
            source=self._source,
            model=self._model,
        ).replace("context: 2048", f"context: {self._context}")
        self.first.write(text)
        self.second.write(text)

    def begin(self, *arguments: str) -> Command:
        """Start a command of the first operator and return when it holds the lock and works."""
        command = Command(self.first, *arguments)
        assert any(event["event"] == "started" for event in command.events()), command.errors
        return command


@pytest.fixture(scope="module")
def two(lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path) -> Two:
    hosts = lab("head")
    made = Two(hosts, workplace_beside(hosts), workplace_beside(hosts), llama_source, small_model)
    made.declare()
    made.first.apply()
    return made


@pytest.mark.parametrize(
    "other", [("apply", "--yes"), ("destroy", "--confirm", "den"), ("stop", "--yes", "chat")]
)
def test_the_second_is_told_who_is_at_it(two: Two, other: tuple[str, ...]) -> None:
    two.declare()
    first = two.begin("apply", "--yes")
    refused = two.second.expect(6, *other)
    assert "command: apply" in refused.stderr
    assert "cluster: den" in refused.stderr
    assert first.wait() == 0, first.errors
    two.second.expect(0, "diff")


def test_the_second_may_wait(two: Two) -> None:
    two.declare()
    first = two.begin("apply", "--yes")
    waited = two.second.expect(0, "apply", "--yes", "--lock-wait", "2m", seconds=300)
    assert "waiting for the lock" in waited.stderr
    assert first.wait() == 0
    two.second.expect(0, "diff")


def test_reading_waits_for_nobody(two: Two) -> None:
    two.declare()
    first = two.begin("apply", "--yes")
    assert two.second.run("diff").code in {0, 2}
    assert first.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_a_holder_that_is_gone_holds_nothing(two: Two, number: signal.Signals) -> None:
    two.declare()
    first = two.begin("apply", "--yes")
    first.process.send_signal(number)
    first.wait()
    began = time.monotonic()
    two.second.expect(0, "apply", "--yes", "--lock-wait", "60s", seconds=300)
    assert time.monotonic() - began < 60
    assert "blue" in answer(two.lab["head"].address, KEY).lower()
    two.second.expect(0, "diff")


def test_a_holder_is_ended_only_by_force_and_the_next_apply_goes_on(two: Two) -> None:
    two.declare()
    first = two.begin("apply", "--yes")
    kept = two.second.expect(6, "unlock", "--yes")
    assert "apply of den" in kept.stdout
    assert two.second.run("unlock", "--yes", "--force").code == 0
    assert first.wait() not in {0, 1}, first.errors
    assert "0 locks held" in two.second.expect(0, "unlock").stdout
    two.second.expect(0, "apply", "--yes", seconds=300)
    two.second.expect(0, "diff")
