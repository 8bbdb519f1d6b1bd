"""A mark that cannot be read is removed by what its name tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetctl.engine.graph import dependency_order
from hetctl.resources import layout, salvage, work
from hetctl.resources.base import Mark
from hetctl.resources.reading import NodeReading
from hetctl.resources.salvage import PATTERN, SEARCHED, salvaged
from hetctl.resources.takeover import files_of, units_of
from hetctl.transport.fake import FakeCall, FakeSession
from tests.resources.den import Den, machine

MANIFEST = """
nodes:
  atlas: {address: 10.0.0.5}
  bench: {address: 10.0.0.7, cpuWorkers: {pool: {threads: 4}}, paths: {builds: /fast/builds}}
placements:
  chat:
    model: gemma
    devices: [bench/pool]
    server: {node: atlas, apiKeys: {me: {env: CHAT_KEY}}}
"""
PATHS = layout.NodePaths(builds="/fast/builds")


@pytest.fixture
def marks(tmp_path: Path) -> dict[str, Mark]:
    return {mark.address: mark for mark in Den(tmp_path, MANIFEST).applied().marks}


def reading(marks: dict[str, Mark], node: str, *damaged: str, units: tuple[str, ...] = ()) -> NodeReading:
    here = {address: mark for address, mark in marks.items() if mark.node == node}
    listeners = [{"address": "0.0.0.0", "port": 1, "unit": unit} for unit in units]
    return NodeReading(
        node=node,
        peer_address="10.0.0.7",
        facts=machine(listeners=listeners),
        marks={address: mark for address, mark in here.items() if address not in damaged},
        damaged=dict.fromkeys(damaged, "cut off"),
    )


@pytest.mark.parametrize("address", ["worker/chat@bench.pool", "firewall/chat@bench", "server/chat"])
def test_units_tables_and_files_are_known_by_name(marks: dict[str, Mark], address: str) -> None:
    intact = marks[address]
    found = salvaged(reading(marks, intact.node, address), "den", PATHS)
    assert found.damaged == {}
    made = found.marks[address]
    assert units_of(made.spec) == units_of(intact.spec)
    assert files_of(made.spec) == files_of(intact.spec)
    assert made.spec.get("table") == intact.spec.get("table")
    assert made.gang == intact.gang
    # what it stood on goes after it, and it is known by its address alone
    here = {other for other, mark in marks.items() if mark.node == intact.node}
    assert {each for each in intact.depends_on if each in here} <= set(made.depends_on)


def test_everything_damaged_is_removed_in_an_order_that_there_is(marks: dict[str, Mark]) -> None:
    every = [address for address, mark in marks.items() if mark.node == "bench"]
    found = salvaged(reading(marks, "bench", *every), "den", PATHS).marks
    needs = {address: [each for each in mark.depends_on if each in found] for address, mark in found.items()}
    order = dependency_order(list(found), needs)
    assert [address.partition("/")[0] for address in order] in (
        ["member", "build", "firewall", "worker"],
        ["member", "firewall", "build", "worker"],
    )


@pytest.mark.parametrize(
    ("address", "key"), [("build/main@bench", "path"), ("model/gemma@atlas", "directory")]
)
def test_directories_are_found_where_they_may_lie(marks: dict[str, Mark], address: str, key: str) -> None:
    intact = marks[address]
    made = salvaged(reading(marks, intact.node, address), "den", PATHS).marks[address]
    directory, _, name = str(intact.spec[key]).rpartition("/")
    assert directory in made.spec[SEARCHED]
    assert re.fullmatch(made.spec[PATTERN], name)
    assert not re.fullmatch(made.spec[PATTERN], "mine")
    assert not re.fullmatch(made.spec[PATTERN], f"{name}.part")


def test_a_directory_that_the_manifest_does_not_name_is_known_from_the_processes(
    marks: dict[str, Mark],
) -> None:
    found = salvaged(reading(marks, "bench", "build/main@bench"), "den", layout.NodePaths())
    assert "/fast/builds" in found.marks["build/main@bench"].spec[SEARCHED]


def test_a_process_whose_mark_is_gone_is_known_by_its_unit(marks: dict[str, Mark]) -> None:
    lost = {address: mark for address, mark in marks.items() if mark.kind != "worker"}
    unit = "hetctl:den:chat:worker:pool.service"
    seen = reading(lost, "bench", units=(unit, "hetctl:attic:chat:worker:pool.service", "sshd.service"))
    found = salvaged(seen, "den", PATHS)
    assert set(found.marks) - set(seen.marks) == {"worker/chat@bench.pool"}
    assert found.marks["worker/chat@bench.pool"].spec["unit"] == unit


def test_a_node_without_damage_is_as_it_was(marks: dict[str, Mark]) -> None:
    seen = reading(marks, "atlas")
    assert salvaged(seen, "den", PATHS) is seen
    assert salvaged(replace(seen, marks={}), "den", PATHS).marks == {}


def test_models_are_searched_under_former_names_but_not_under_those_of_others() -> None:
    session = FakeSession("head", {"run": _listing})
    mark = Mark(
        "lair", "model/gemma@head", "model", "head",
        {
            salvage.SEARCHED: ["/m/lair"],
            salvage.ABOVE: ["/m"],
            salvage.SPARED: ["attic"],
            salvage.PATTERN: f"gemma-{salvage.KEY_PATTERN}",
        },
        "", 0,
    )  # fmt: skip
    assert work.salvaged_paths(session, mark) == ["/m/den/gemma-0123456789abcdef"]


def _listing(call: FakeCall) -> Mapping[str, Any]:
    there = {
        "/m": "attic\nden\n",
        "/m/attic": "gemma-0123456789abcdef\n",
        "/m/den": "gemma-0123456789abcdef\ngemma-mine\nother-0123456789abcdef\n",
    }
    directory = call.arguments["argv"][-1]
    return {"exit": 0 if directory in there else 2, "stdout": there.get(directory, ""), "stderr": ""}


def test_the_record_of_what_was_replaced_is_found_by_its_placement(marks: dict[str, Mark]) -> None:
    made = salvaged(reading(marks, "atlas", "predecessor/chat"), "den", PATHS).marks["predecessor/chat"]
    path = layout.predecessor_path("den", "chat", "unit:old.service")
    directory, _, name = path.rpartition("/")
    assert made.spec[SEARCHED] == [directory]
    assert re.fullmatch(made.spec[PATTERN], name)
    assert not re.fullmatch(made.spec[PATTERN], f"other{name}")
    assert made.gang == made.spec["placement"] == "chat"
