from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hetctl.errors import ExitCode
from tests.cli.commands import Bench, bench
from tests.engine.toy import cluster_of, toy

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "schemas" / "answer.schema.json").read_text(encoding="utf-8")
)


@pytest.fixture
def hetctl(tmp_path: Path) -> Bench:
    cluster = cluster_of(toy("server/chat", "a", gang="chat"), toy("server/embed", "b", gang="embed"))
    cluster.answer = "the red fox"
    return bench(cluster, tmp_path)


def test_the_answer_is_the_result(hetctl: Bench) -> None:
    ended = hetctl("ask", "-p", "chat", "-m", "FILE", "What is quick?")
    assert (ended.code, ended.out, ended.err) == (0, "the red fox \n", "")
    assert hetctl.cluster.world.opened == [("a", False)]


def test_a_prompt_from_standard_input(hetctl: Bench) -> None:
    assert hetctl("ask", "-p", "chat", "-m", "FILE", "-", typed="What is quick?\n").code == 0
    assert hetctl("ask", "-p", "chat", "-m", "FILE", "-", typed="\n").code == ExitCode.USAGE


def test_several_placements_need_a_name(hetctl: Bench) -> None:
    ended = hetctl("ask", "-m", "FILE", "hi")
    assert ended.code == ExitCode.USAGE
    assert "chat, embed" in ended.err


def test_an_unreachable_head_is_5(hetctl: Bench) -> None:
    hetctl.cluster.world.unreachable.add("a")
    ended = hetctl("ask", "-p", "chat", "-m", "FILE", "hi")
    assert (ended.code, ended.out) == (ExitCode.UNREACHABLE, "")


def test_json(hetctl: Bench) -> None:
    document = json.loads(hetctl("ask", "-p", "chat", "-o", "json", "-m", "FILE", "hi").out)
    jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert document["text"] == "the red fox "
