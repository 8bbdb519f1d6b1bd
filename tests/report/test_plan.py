from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hetctl.report.plan import plan_text
from hetctl.report.terminal import PLAIN, Terminal
from hetctl.resources.provider import (
    DeviceRow,
    GangSummary,
    Plan,
    Purpose,
)
from tests.report.sample import SAMPLE, TROUBLE

GOLDEN = Path(__file__).parent / "golden"
NEXT = "hetctl apply cluster.yaml"

CASES = {
    "plan": lambda: plan_text(SAMPLE, PLAIN, next_command=NEXT),
    "trouble": lambda: plan_text(TROUBLE, PLAIN, next_command=f"{NEXT} --prune", prune=False),
    "colour": lambda: plan_text(TROUBLE, Terminal(colour=True)),
    "nothing": lambda: plan_text(replace(SAMPLE, changes=SAMPLE.changes[:1], gangs=()), PLAIN),
}


@pytest.mark.parametrize("name", CASES)
def test_the_shape_is_held(name: str) -> None:
    expected = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").replace("<ESC>", "\x1b")
    assert CASES[name]() == expected


def test_colour_changes_nothing_but_colour() -> None:
    coloured = plan_text(TROUBLE, Terminal(colour=True))
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plan_text(TROUBLE, PLAIN)


def test_removals_are_red() -> None:
    line = next(
        line for line in plan_text(TROUBLE, Terminal(colour=True)).splitlines() if "model/old" in line
    )
    assert line.startswith("  \x1b[31m- model/old")


def test_the_outage_leads_whatever_the_order_of_the_placements() -> None:
    calm = GangSummary("aaa", SAMPLE.gangs[0].action)
    changes = (replace(SAMPLE.changes[1], gang="aaa", address="server/aaa"), *SAMPLE.changes)
    text = plan_text(replace(SAMPLE, changes=changes, gangs=(calm, *SAMPLE.gangs)), PLAIN)
    assert text.index("chat  ~") < text.index("aaa  ~")


def test_a_table_without_estimates_shows_layers_only() -> None:
    gang = replace(SAMPLE.gangs[0], rows=(DeviceRow("atlas/fast", "31"), DeviceRow("bench/left", "5+out")))
    text = plan_text(replace(SAMPLE, gangs=(gang,)), PLAIN)
    assert "  card          layers\n  atlas/fast    31\n  bench/left    5+out\n" in text


def test_a_missing_estimate_is_a_question_mark_not_a_nought() -> None:
    gang = replace(SAMPLE.gangs[0], rows=(DeviceRow("atlas/fast", "31", 1 << 30),))
    assert "  atlas/fast  31      1.0      ?   ?        ?\n" in plan_text(
        replace(SAMPLE, gangs=(gang,)), PLAIN
    )


def test_small_models_are_shown_in_whole_mebibytes() -> None:
    gang = replace(SAMPLE.gangs[0], rows=(DeviceRow("left/pool", "9", 36 << 20, 8 << 20, None, 4 << 30),))
    assert "  left/pool  9       36       8   ?        4096 MiB" in plan_text(
        replace(SAMPLE, gangs=(gang,)), PLAIN
    )


def test_a_gang_nobody_summed_up_is_shown_all_the_same() -> None:
    assert plan_text(replace(SAMPLE, gangs=()), PLAIN).startswith("chat  ~\n  atlas   ~ server/chat")


def test_nothing_left_to_destroy() -> None:
    plan = Plan("den", "", Purpose.DESTROY, (), ("atlas",))
    assert plan_text(plan, PLAIN) == "No changes: den has nothing left to remove; 1 node read, 0 unknown.\n"


def test_an_unknown_node_is_never_no_changes() -> None:
    plan = replace(SAMPLE, changes=(), gangs=(), nodes_read=("atlas",), nodes_unknown={"pascal": "timed out"})
    assert plan_text(plan, PLAIN) == (
        "pascal  ? unknown: timed out\n0 to add, 0 to change, 0 to remove; 1 node read, 1 unknown.\n"
    )
