from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hetctl.errors import ExitCode
from tests.cli.commands import Bench, bench
from tests.engine.toy import cluster_of, toy

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "log.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def hetctl(tmp_path: Path) -> Bench:
    cluster = cluster_of(toy("worker/chat@b", "b", gang="chat"), toy("server/chat", "a", gang="chat"))
    return bench(cluster, tmp_path)


def test_lines_say_when_and_who(hetctl: Bench) -> None:
    ended = hetctl("logs", "chat", "-n", "1", "-m", "FILE")
    assert ended.code == ExitCode.DONE
    assert sorted(ended.out.splitlines()) == [
        "1970-01-01T00:00:00.000Z a server/chat server/chat line 0",
        "1970-01-01T00:00:00.000Z b worker/chat worker/chat@b line 0",
    ]


def test_the_only_placement_needs_no_name(hetctl: Bench) -> None:
    assert hetctl("logs", "-m", "FILE").out.count("\n") == 200
    assert hetctl("logs", "chap", "-m", "FILE").code == ExitCode.USAGE


def test_following(hetctl: Bench) -> None:
    assert "server/chat goes on" in hetctl("logs", "-f", "-n", "0", "-m", "FILE").out


def test_a_silent_node_is_5_and_the_others_are_shown(hetctl: Bench) -> None:
    hetctl.cluster.world.unreachable.add("b")
    ended = hetctl("logs", "-n", "1", "-m", "FILE")
    assert ended.code == ExitCode.UNREACHABLE
    assert "server/chat line 0" in ended.out
    assert "no connection to b" in ended.err


def test_json_lines(hetctl: Bench) -> None:
    lines = hetctl("logs", "-n", "1", "-o", "json", "-m", "FILE").out.splitlines()
    assert len(lines) == 2
    for line in lines:
        jsonschema.validate(json.loads(line), SCHEMA, cls=jsonschema.Draft202012Validator)
