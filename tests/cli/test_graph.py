from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hetctl.errors import ExitCode
from tests.cli.commands import Bench, bench
from tests.engine.toy import cluster_of, toy

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "graph.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def hetctl(tmp_path: Path) -> Bench:
    return bench(
        cluster_of(
            toy("model/gemma", "a"), toy("server/chat", "b", gang="chat", depends_on=("model/gemma",))
        ),
        tmp_path,
    )


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("text", "server/chat on b  create\n`- model/gemma on a  create\n"),
        ("mermaid", "flowchart BT\n"),
        ("dot", 'digraph "toybox" {\n'),
        ("svg", "<svg "),
    ],
)
def test_each_form_goes_to_standard_output(hetctl: Bench, form: str, begins: str) -> None:
    ended = hetctl("graph", "-f", form, "FILE")
    assert ended.code == ExitCode.DONE
    assert ended.out.startswith(begins)
    assert all(not write for _, write in hetctl.cluster.world.opened)


def test_steps_and_targets(hetctl: Bench) -> None:
    assert hetctl("graph", "--steps", "FILE").out.startswith("make server/chat on b\n")
    assert "chat" not in hetctl("graph", "--target", "model/gemma", "FILE").out


def test_json(hetctl: Bench) -> None:
    document = json.loads(hetctl("graph", "-o", "json", "FILE").out)
    jsonschema.validate(document, SCHEMA)
    assert document["edges"] == [["server/chat on b", "model/gemma on a"]]


def test_a_node_that_is_down(hetctl: Bench) -> None:
    hetctl.cluster.world.unreachable.add("b")
    ended = hetctl("graph", "FILE")
    assert ended.code == ExitCode.UNREACHABLE
    assert "unknown" in ended.out
