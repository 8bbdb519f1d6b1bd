from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetctl.resources.base import Action, Change, Cost
from hetctl.resources.provider import GangSummary, Plan, Purpose
from hetctl.resources.registry import KINDS
from hetctl.resources.summary import summarise
from tests.resources.den import Den

MANIFEST = """
nodes:
  head: {address: 10.0.0.5}
  bench: {address: 10.0.0.7, cpuWorkers: {left: {threads: 4}, right: {threads: 2}}}
placements:
  chat:
    model: gemma
    devices: [bench/left, bench/right]
    layers: {bench/left: 2, bench/right: 2}
    server: {node: head, listen: [127.0.0.1]}
"""


@pytest.fixture
def den(tmp_path: Path) -> Den:
    return Den(tmp_path, MANIFEST)


def summary(now: Den, action: Action) -> GangSummary:
    marks = {mark.address: mark for mark in now.marks}
    changes = tuple(
        Change(item.address, item.kind, item.node, action, item, marks.get(item.address), gang=item.gang,
               cost=Cost.MODEL_RELOAD)
        for item in now.wanted.values()
        if item.gang
    )  # fmt: skip
    inputs = now.inputs
    plan = Plan("den", "", Purpose.APPLY, changes, ("head", "bench"))
    (found,) = summarise(plan, inputs.survey, inputs.resolved, inputs.shapes)
    return found


def test_a_first_apply_shows_who_holds_what(den: Den) -> None:
    found = summary(den, Action.CREATE)
    assert [(row.device, row.layers) for row in found.rows] == [
        ("head/cpu", "in"),
        ("bench/left", "2"),
        ("bench/right", "2+out"),
    ]
    assert all(
        row.weights and row.kv is not None and row.free_after and row.compute is None for row in found.rows
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bench/left: 2, bench/right: 2", "bench/left: 1, bench/right: 3"),
        ("layers: {bench/left: 2, bench/right: 2}", "context: 1024"),
        ("layers: {bench/left: 2, bench/right: 2}", "slots: 4"),
        ("layers: {bench/left: 2, bench/right: 2}", "kvUnified: true"),
        ("layers: {bench/left: 2, bench/right: 2}", "kvCache: {k: q8_0}"),
        ("[bench/left, bench/right]", "[bench/right, bench/left]"),
    ],
)
def test_what_moves_bytes_shows_them(den: Den, old: str, new: str) -> None:
    assert old in MANIFEST
    changed = replace(den.applied(), manifest=MANIFEST.replace(old, new))
    assert summary(changed, Action.UPDATE).rows


def test_another_model_shows_them(den: Den) -> None:
    before = den.applied()
    marks = [
        replace(mark, spec={**mark.spec, "model_sha256": "c" * 64}) if mark.kind == "server" else mark
        for mark in before.marks
    ]
    assert summary(replace(before, marks=marks), Action.UPDATE).rows


@pytest.mark.parametrize(
    "more", ["", "    alias: other\n", "    threads: 3\n", "    ready: {prompt: Who?}\n"]
)
def test_what_moves_nothing_does_not(den: Den, more: str) -> None:
    assert summary(replace(den.applied(), manifest=MANIFEST + more), Action.UPDATE).rows == ()


def test_a_restart_shows_nothing(den: Den) -> None:
    assert summary(den.applied(), Action.RESTART).rows == ()


def test_what_is_removed_needs_no_model(den: Den) -> None:
    inputs = den.inputs
    changes = tuple(
        Change(mark.address, mark.kind, mark.node, Action.REMOVE, None, mark, gang=mark.gang)
        for mark in den.applied().marks
        if mark.kind in KINDS and mark.gang
    )
    plan = Plan("den", "", Purpose.DESTROY, changes, ("head", "bench"))
    (found,) = summarise(plan, inputs.survey, inputs.resolved, {})
    assert (found.action, found.seconds, found.rows) == (Action.REMOVE, None, ())
    workers_only = replace(plan, changes=tuple(change for change in changes if change.kind == "worker"))
    assert summarise(workers_only, inputs.survey, inputs.resolved, {})[0].rows == ()
