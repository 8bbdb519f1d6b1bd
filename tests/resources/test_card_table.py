"""Card tables against numbers that llama.cpp printed, and what is said to stay free."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetctl.resources.base import Action, Change
from hetctl.resources.card_table import card_rows, free_memory
from hetctl.resources.provider import DeviceRow
from tests.fit import gguf_writer
from tests.resources.den import FACTS, Den

MIB = 2**20
GEMMA = json.loads(
    (Path(gguf_writer.__file__).parent / "data" / "gemma-3-270m.json").read_text(encoding="utf-8")
)
AVAILABLE = FACTS["memory"]["available"]

NODES = """
nodes:
  head: {address: 10.0.0.5, cpuWorkers: {own: {}, spare: {}}}
  bench: {address: 10.0.0.7, cpuWorkers: {left: {}, right: {}, third: {}}}
  atlas:
    address: 10.0.0.9
    gpus:
      fast: {match: {uuid: GPU-1a2b3c4d-0000-0000-0000-000000000001}, memory: 4GiB, shared: true}
      unsized: {match: {uuid: GPU-1a2b3c4d-0000-0000-0000-000000000002}}
placements:
"""


def chat(devices: str, more: str = "", *, name: str = "chat", port: int = 8080) -> str:
    return (
        f"  {name}: {{model: gemma, devices: [{devices}], server: {{node: head, port: {port},"
        f" listen: [127.0.0.1]}}{more}}}\n"
    )


TWO = chat("bench/left, bench/right", ", layers: {bench/left: 10, bench/right: 8}, context: 4096, slots: 2")


def den(directory: Path, placements: str) -> Den:
    return Den(directory, NODES + placements, model=(GEMMA["metadata"], GEMMA["tensors"]))


def heads(now: Den, actions: Mapping[str, Action] | None = None) -> list[Change]:
    """Return the changes of all servers: new where there is no mark, else an update."""
    marks = {mark.address: mark for mark in now.marks}
    found = []
    for item in now.wanted.values():
        if item.kind == "server":
            mark = marks.get(item.address)
            action = (actions or {}).get(item.address, Action.UPDATE if mark else Action.CREATE)
            found.append(Change(item.address, "server", item.node, action, item, mark, gang=item.gang))
    return found


def table(now: Den, name: str = "chat", actions: Mapping[str, Action] | None = None) -> list[DeviceRow]:
    inputs = now.inputs
    changes = heads(now, actions)
    free = free_memory(changes, inputs.survey, inputs.resolved, inputs.shapes)
    head = next(change for change in changes if change.address == f"server/{name}")
    return list(card_rows(head, inputs.shapes, free))


def mebibytes(rows: list[DeviceRow]) -> list[tuple[str, str, float, float]]:
    return [
        (row.device, row.layers, round((row.weights or 0) / MIB, 2), round((row.kv or 0) / MIB, 2))
        for row in rows
    ]


def taken(rows: list[DeviceRow], *nodes: str) -> int:
    return sum((row.weights or 0) + (row.kv or 0) for row in rows if row.device.partition("/")[0] in nodes)


def running(now: Den, more: Mapping[str, Any] | None = None) -> Den:
    """Return the cluster after an apply, with its servers listening."""
    listeners = [
        {"address": "127.0.0.1", "port": item.spec["port"], "pid": 1, "exe": "", "unit": item.spec["unit"]}
        for item in now.wanted.values()
        if item.kind == "server"
    ]
    return replace(now.applied(), facts={"head": {"listeners": listeners}, **(more or {})})


def test_devices_hold_what_llama_cpp_printed(tmp_path: Path) -> None:
    assert mebibytes(table(den(tmp_path, TWO))) == [
        ("head/cpu", "in", 170.0, 0.0),
        ("bench/left", "10", 35.82, 26.0),
        ("bench/right", "8+out", 199.34, 28.0),
    ]


def test_layers_of_the_head_are_counted_with_it(tmp_path: Path) -> None:
    more = ", layers: {bench/left: 8, bench/right: 6, cpu: 4}, context: 2048"
    rows = table(den(tmp_path, chat("bench/left, bench/right", more)))
    assert mebibytes(rows)[1:] == [("bench/left", "8", 28.58, 10.0), ("bench/right", "6+out", 192.1, 7.0)]
    assert rows[0].layers == "4+in"
    assert rows[0].kv == 4 * MIB


def test_without_offload_all_is_in_one_place(tmp_path: Path) -> None:
    (row,) = table(den(tmp_path, chat("head/cpu", ", context: 300")))
    assert (row.device, row.layers, row.kv) == ("head/cpu", "all", 9 * MIB)
    assert round((row.weights or 0) / MIB, 2) == 235.16


def test_experts_on_the_head_weigh_there(tmp_path: Path) -> None:
    manifest = NODES + chat(
        "atlas/fast, bench/left", ", nCpuMoe: 10, layers: {atlas/fast: 18, bench/left: 6}"
    )
    now = Den(tmp_path, manifest, model=gguf_writer.gpt_oss())
    rows = table(now)
    assert [(row.weights or 0) // MIB for row in rows[1:]] == [3727, 3177]
    less = table(replace(now, manifest=manifest.replace("nCpuMoe: 10, ", "")))
    assert (
        (rows[0].weights or 0) - (less[0].weights or 0) == (less[1].weights or 0) - (rows[1].weights or 0) > 0
    )


def test_processors_of_one_node_share_its_memory(tmp_path: Path) -> None:
    rows = table(den(tmp_path, TWO))
    assert [row.free_after for row in rows] == [
        AVAILABLE - taken(rows, "head"),
        AVAILABLE - taken(rows, "bench"),
        AVAILABLE - taken(rows, "bench"),
    ]


def test_a_worker_beside_its_head_shares_with_it(tmp_path: Path) -> None:
    rows = table(den(tmp_path, chat("head/own, bench/left")))
    assert rows[0].free_after == rows[1].free_after == AVAILABLE - taken(rows, "head")
    assert rows[2].free_after == AVAILABLE - taken(rows, "bench")


def test_placements_that_come_together_share_too(tmp_path: Path) -> None:
    now = den(tmp_path, TWO + chat("bench/third", name="other", port=8081))
    both = taken(table(now), "bench") + taken(table(now, "other"), "bench")
    assert table(now)[1].free_after == table(now, "other")[1].free_after == AVAILABLE - both


def test_what_runs_already_is_no_longer_available_and_does_not_count_again(tmp_path: Path) -> None:
    now = den(tmp_path, TWO + chat("bench/third", name="other", port=8081))
    only_chat = table(now, actions={"server/other": Action.NONE})
    assert only_chat[1].free_after == AVAILABLE - taken(only_chat, "bench")


def test_a_running_placement_gives_back_what_it_holds(tmp_path: Path) -> None:
    before = den(tmp_path, TWO)
    held = table(before)
    after = replace(running(before), manifest=NODES + TWO.replace("4096", "8192"))
    rows = table(after)
    assert taken(rows, "bench") > taken(held, "bench")
    assert rows[1].free_after == AVAILABLE + taken(held, "bench") - taken(rows, "bench")
    # the head's weights are mapped: the kernel counts them as available all the time
    assert rows[0].free_after == AVAILABLE - taken(rows, "head")


def test_weights_that_are_locked_are_given_back_as_well(tmp_path: Path) -> None:
    before = den(tmp_path, TWO.replace("slots: 2", "slots: 2, loadMode: mlock"))
    after = replace(running(before), manifest=before.manifest.replace("4096", "8192"))
    assert table(after)[0].free_after == AVAILABLE


def test_a_placement_that_is_down_holds_nothing(tmp_path: Path) -> None:
    before = den(tmp_path, TWO)
    rows = table(replace(before.applied(), manifest=NODES + TWO.replace("4096", "8192")))
    assert rows[1].free_after == AVAILABLE - taken(rows, "bench")


def test_what_another_model_holds_is_not_known(tmp_path: Path) -> None:
    before = running(den(tmp_path, TWO))
    marks = [
        replace(mark, spec={**mark.spec, "model_sha256": "c" * 64}) if mark.kind == "server" else mark
        for mark in before.marks
    ]
    rows = table(replace(before, marks=marks))
    assert [row.free_after for row in rows] == [None, None, None]
    assert all(row.weights is not None for row in rows)


def test_a_card_has_what_is_declared_and_every_placement_on_it_counts(tmp_path: Path) -> None:
    one = chat("atlas/fast", ", layers: {atlas/fast: 18}")
    other = chat("atlas/fast", ", layers: {atlas/fast: 18}, context: 1024", name="other", port=8081)
    now = den(tmp_path, one + other)
    both = taken(table(now), "atlas") + taken(table(now, "other"), "atlas")
    assert table(now)[1].free_after == 4 * 2**30 - both
    unchanged = table(now, actions={"server/other": Action.NONE})
    assert unchanged[1].free_after == 4 * 2**30 - both


def test_a_card_gives_nothing_back_since_it_is_declared_whole(tmp_path: Path) -> None:
    before = den(tmp_path, chat("atlas/fast", ", layers: {atlas/fast: 18}, context: 1024"))
    rows = table(replace(running(before), manifest=before.manifest.replace("1024", "4096")))
    assert rows[1].free_after == 4 * 2**30 - taken(rows, "atlas")


def test_beside_a_card_that_is_shared_processors_count_once(tmp_path: Path) -> None:
    one = chat("atlas/fast, bench/left", ", layers: {atlas/fast: 9, bench/left: 9}")
    other = chat(
        "atlas/fast, bench/right", ", layers: {atlas/fast: 9, bench/right: 9}", name="other", port=8081
    )
    rows = table(den(tmp_path, one + other), actions={"server/other": Action.NONE})
    assert rows[1].free_after == 4 * 2**30 - 2 * taken(rows, "atlas")
    assert rows[2].free_after == AVAILABLE - taken(rows, "bench")


def test_a_card_of_unknown_size_leaves_nobody_knows_what(tmp_path: Path) -> None:
    rows = table(den(tmp_path, chat("atlas/unsized", ", layers: {atlas/unsized: 18}")))
    assert (rows[1].free_after, rows[1].kv is None) == (None, False)


@pytest.mark.parametrize("facts", [None, {"memory": {}}])
def test_a_node_that_says_nothing_of_its_memory(tmp_path: Path, facts: Mapping[str, Any] | None) -> None:
    rows = table(replace(den(tmp_path, TWO), facts={"bench": facts}))
    assert rows[0].free_after is not None
    assert [row.free_after for row in rows[1:]] == [None, None]


def test_without_flash_attention_uneven_heads_make_a_cache_nobody_knows(tmp_path: Path) -> None:
    uneven = gguf_writer.transformer(layers=4, kv_heads=[1, 2, 2, 4])
    placement = chat("bench/left")
    assert table(Den(tmp_path, NODES + placement, model=uneven))[1].kv is not None
    off = placement.replace("model: gemma,", "model: gemma, flashAttention: 'off',")
    assert table(Den(tmp_path, NODES + off, model=uneven))[1].kv is None


def test_a_cache_that_is_not_modelled_leaves_the_rest_open(tmp_path: Path) -> None:
    strange = gguf_writer.transformer("a-new-one", layers=18)
    rows = table(Den(tmp_path, NODES + TWO, model=strange))
    assert all(row.weights and row.kv is None and row.free_after is None for row in rows)
