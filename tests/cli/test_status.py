from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hetctl.errors import ExitCode
from tests.cli.commands import Bench, bench
from tests.engine.toy import cluster_of, toy

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "schemas" / "status.schema.json").read_text(encoding="utf-8")
)


@pytest.fixture
def hetctl(tmp_path: Path) -> Bench:
    cluster = cluster_of(toy("worker/chat", "b", gang="chat"), toy("server/chat", "a", gang="chat"))
    return bench(cluster, tmp_path)


def test_not_applied_is_10(hetctl: Bench) -> None:
    ended = hetctl("status", "FILE")
    assert ended.code == ExitCode.UNHEALTHY
    assert ended.out.startswith("chat  absent\n")
    assert ended.err == ""


def test_ready_is_0_and_says_where(hetctl: Bench) -> None:
    hetctl("apply", "--yes", "FILE")
    ended = hetctl("status", "FILE")
    assert ended.code == ExitCode.DONE
    assert ended.out.startswith("chat  ready\n")
    assert "http://10.0.0.5:8080/v1" in ended.out


def test_a_silent_node_is_5_unless_it_may_be_down(hetctl: Bench) -> None:
    hetctl("apply", "--yes", "FILE")
    hetctl.cluster.world.unreachable.add("b")
    assert hetctl("status", "FILE").code == ExitCode.UNREACHABLE
    allowed = hetctl("status", "FILE", "--allow-unreachable", "b")
    assert allowed.code == ExitCode.UNHEALTHY
    assert allowed.out.startswith("b  ? unknown: ")


def test_json(hetctl: Bench) -> None:
    ended = hetctl("status", "FILE", "-o", "json")
    document = json.loads(ended.out)
    jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert ended.code == document["exitCode"] == ExitCode.UNHEALTHY
