"""Back to what was there before: the server decides, and everything of the placement fits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetctl.resources.base import Desired, Mark
from hetctl.resources.marks import PROVED, mark_for
from hetctl.resources.rollback import rolled_back
from tests.resources.den import Den

MANIFEST = """
nodes:
  atlas: {address: 10.0.0.5}
  bench: {address: 10.0.0.7, cpuWorkers: {left: {threads: 4}}}
placements:
  chat: {model: gemma, devices: [bench/left], server: {node: atlas}, context: CONTEXT, rpc: {port: PORT}}
"""
WORKER, SERVER, FILTER = "worker/chat@bench.left", "server/chat", "firewall/chat@bench"


def den(folder: Path, context: int, port: int) -> Den:
    return Den(folder, MANIFEST.replace("CONTEXT", str(context)).replace("PORT", str(port)))


def after(folder: Path, *generations: tuple[int, int]) -> Den:
    """Return the cluster after one apply for each (context, port)."""
    marks: dict[str, Mark] = {}
    for context, port in generations:
        for item in den(folder, context, port).state.resources:
            marks[item.address] = _next(item, marks.get(item.address))
    return replace(den(folder, *generations[-1]), marks=list(marks.values()))


def _next(item: Desired, old: Mark | None) -> Mark:
    previous: Mapping[str, Any] | None = None
    if old is not None and old.spec_hash != item.spec_hash:
        previous = {"spec": old.spec, "objects": []}
    elif old is not None:
        previous = old.facts["previous"]
    return mark_for(item, cluster="den", generation=1, state=PROVED, facts={"previous": previous})


def back(it: Den) -> dict[str, Desired]:
    state = rolled_back(it.state, it.inputs.survey, "chat")
    assert not [finding for finding in state.findings if finding.code == "NOTHING_TO_ROLL_BACK"]
    return {item.address: item for item in state.resources}


def why_not(it: Den) -> str:
    state = rolled_back(it.state, it.inputs.survey, "chat")
    [finding] = [finding for finding in state.findings if finding.code == "NOTHING_TO_ROLL_BACK"]
    return finding.why


def test_everything_is_what_it_was(tmp_path: Path) -> None:
    wanted = back(after(tmp_path, (1024, 20100), (2048, 20200)))
    before = den(tmp_path, 1024, 20100).wanted
    for address in (WORKER, SERVER, FILTER):
        assert wanted[address].spec == before[address].spec


def test_a_worker_that_did_not_change_since_stays(tmp_path: Path) -> None:
    # the worker's own previous generation is older than the server's
    wanted = back(after(tmp_path, (512, 20100), (1024, 20200), (2048, 20200)))
    assert wanted[SERVER].spec["settings"]["context"] == 1024
    assert wanted[WORKER].spec["port"] == 20200
    assert list(wanted[FILTER].spec["ports"]) == ["20200"]


def test_a_first_generation_has_nothing_before_it(tmp_path: Path) -> None:
    assert why_not(after(tmp_path, (1024, 20100))) == "there is no earlier generation of it"
    assert why_not(den(tmp_path, 1024, 20100)) == "there is no earlier generation of it"


@pytest.mark.parametrize("gone", [WORKER])
def test_a_worker_that_was_removed_cannot_come_back(tmp_path: Path, gone: str) -> None:
    it = after(tmp_path, (1024, 20100), (2048, 20200))
    left = [mark for mark in it.marks if mark.address != gone]
    assert gone in why_not(replace(it, marks=left))


def test_other_resources_stay_as_the_manifest_says(tmp_path: Path) -> None:
    it = after(tmp_path, (1024, 20100), (2048, 20200))
    wanted, declared = back(it), it.wanted
    for address in declared.keys() - {WORKER, SERVER, FILTER}:
        assert wanted[address] == declared[address]
