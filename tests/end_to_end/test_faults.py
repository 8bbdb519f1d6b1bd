"""Whatever goes wrong at whatever step: it is said, nothing is half made, and the next command mends it.

The steps are those of a real run. A few (step, fault) pairs are drawn by a seed, `HETCTL_FAULT_SEED`; with
`HETCTL_FAULTS=all`, as `make faults` sets it, every pair is tried.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end import faults
from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.faults import FAULTS
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.hosts import Lab
from tests.lab.snapshot import difference, snapshot

ALL = os.environ.get("HETCTL_FAULTS") == "all"
ANY = "drawn"
SEED = os.environ.get("HETCTL_FAULT_SEED") or str(random.randrange(10**6))  # noqa: S311 - draws test cases
DRAWN = 1
"""Pairs of each scenario in an ordinary run."""

APPLY = ("apply", "--yes", "--lock-wait", "90s")
DESTROY = ("destroy", "--confirm", "den", "--lock-wait", "90s")
SAID = {"done", "failed", "skipped", "stopped", "not reached"}


class Range:
    """Where it is tried: a head and a worker."""

    def __init__(self, lab: Lab, workplace: Workplace, source: Path, model: Path) -> None:
        self.lab, self.workplace = lab, workplace
        self._source, self._model = source, model
        self._before = {host.name: snapshot(host) for host in lab}
        self._digest = hashlib.sha256(model.read_bytes()).hexdigest()
        self._turns = 0
        self._steps: dict[str, tuple[str, ...]] = {}
        self.sound = True
        """Nothing is left of a test that failed half-way."""

    def declare(self) -> None:
        """Write a manifest that differs from the last one in what restarts the placement, ports included."""
        self._turns += 1
        odd = self._turns % 2
        text = chat_manifest(
            name="den",
            head="head",
            workers=["left"],
            addresses={host.name: host.address for host in self.lab},
            source=self._source,
            model=self._model,
            extra=f"    rpc: {{port: {20100 + odd}}}",
        )
        self.workplace.write(text.replace("context: 2048", f"context: {1024 + 1024 * odd}"))

    def make_sound(self) -> None:
        """Clear away what a test left that failed half-way."""
        if self.sound:
            return
        for host in self.lab:
            host.thaw()
            host.heal()
            host.start()
        self.declare()
        self.converges()
        self.clean()
        self.sound = True

    def steps(self, name: str) -> tuple[str, ...]:
        """Return the steps of a scenario, in the order in which they begin."""
        if name not in self._steps:
            scenario = SCENARIOS[name]
            scenario.prepare(self)
            self._steps[name] = faults.steps_of(self.workplace, scenario.arguments)
            scenario.recover(self)
        return self._steps[name]

    def survives(self, scenario: Scenario, step: str, fault: str) -> None:
        """Let a fault happen when a step begins, and insist that it is said and mended."""
        scenario.prepare(self)
        struck = faults.strike(self.workplace, self.lab, scenario.arguments, step, FAULTS[fault])
        assert struck.happened, f"{step!r} did not begin"
        assert struck.code != 1, struck.errors
        assert "Traceback" not in struck.errors
        if FAULTS[fault].speaks:
            assert struck.results is not None, struck.errors
            assert set(struck.planned) <= set(struck.results)
            assert set(struck.results.values()) <= SAID
        self.nothing_half_made()
        scenario.recover(self)

    def converges(self) -> None:
        """Insist that the next apply mends everything."""
        self.workplace.expect(0, *APPLY, seconds=400)
        self.workplace.expect(0, "diff")
        assert "blue" in answer(self.lab["head"].address, KEY).lower()

    def clean(self) -> None:
        """Insist that the next destroy leaves nothing."""
        self.workplace.expect(0, *DESTROY, seconds=400)
        for host in self.lab:
            assert difference(self._before[host.name], snapshot(host)) == []

    def nothing_half_made(self) -> None:
        for host in self.lab:
            for line in faults.half_made(host):
                assert line.split()[0] == self._digest, f"{host.name}: {line}"


class Scenario:
    """A command, and what comes before and after it.

    Arguments:
        arguments: Of the command that is hit.
        prepare: Brings the lab to where it begins.
        recover: What has to work afterwards.
    """

    def __init__(
        self, arguments: tuple[str, ...], prepare: Callable[[Range], None], recover: Callable[[Range], None]
    ) -> None:
        self.arguments, self.prepare, self.recover = arguments, prepare, recover


def _nothing(_where: Range) -> None:
    """Return: a first apply begins where the last destroy ended."""


def _first(where: Range) -> None:
    where.converges()
    where.clean()


def _applied(where: Range) -> None:
    where.converges()


def _about_to_change(where: Range) -> None:
    where.converges()
    where.declare()


SCENARIOS = {
    "a first apply": Scenario(APPLY, _nothing, _first),
    "an apply that is given up": Scenario(APPLY, _nothing, Range.clean),
    "a change": Scenario(APPLY, _about_to_change, _applied),
    "destroy": Scenario(DESTROY, _applied, Range.clean),
}


@pytest.fixture(scope="module")
def where(
    lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path
) -> Range:
    hosts = lab("head", "left")
    made = Range(hosts, workplace_beside(hosts), llama_source, small_model)
    made.declare()
    return made


CASES = [(name, fault) for name in SCENARIOS for fault in (FAULTS if ALL else (ANY,))]


@pytest.mark.timeout(0 if ALL else 900)
@pytest.mark.parametrize(("name", "fault"), CASES)
def test_a_fault_at_any_step_is_survived(
    where: Range, name: str, fault: str, record_testsuite_property: Callable[[str, object], None]
) -> None:
    where.make_sound()
    steps = where.steps(name)
    pairs = [(step, each) for step in steps for each in FAULTS if fault in (each, ANY)]
    if fault == ANY:
        pairs = random.Random(f"{SEED} {name}").sample(pairs, DRAWN)  # noqa: S311 - draws test cases
    began = time.monotonic()
    where.sound = False
    for step, each in pairs:
        print(f"\n{name}: {each} at {step!r} (seed {SEED})", flush=True)  # noqa: T201 - says where it failed
        where.survives(SCENARIOS[name], step, each)
    where.sound = True
    seconds = time.monotonic() - began
    figure = f"{fault}: {len(pairs)} of {len(steps)} steps tried and survived, {seconds:.0f} s"
    record_testsuite_property(f"faults {name}, {fault}", figure)
    print(f"\n{name}: {figure}")  # noqa: T201 - what the figures are read from
