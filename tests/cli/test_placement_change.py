from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetctl.errors import ExitCode
from tests.cli.commands import Bench, bench
from tests.engine.toy import cluster_of, toy


@pytest.fixture
def hetctl(tmp_path: Path) -> Bench:
    cluster = cluster_of(
        toy("model/gemma", "a"),
        toy("server/chat", "a", gang="chat", depends_on=("model/gemma",)),
        toy("server/code", "b", gang="code"),
    )
    it = bench(cluster, tmp_path)
    assert it("apply", "--yes", "FILE").code == 0
    cluster.world.made.clear()
    return it


def test_only_the_named_placement_is_touched(hetctl: Bench) -> None:
    ended = hetctl("stop", "--yes", "chat", "-m", "FILE")
    assert ended.code == ExitCode.DONE
    assert hetctl.cluster.world.made == ["server/chat"]
    assert "code" not in ended.out
    assert "hetctl status" in ended.out


def test_another_nodes_silence_does_not_matter(hetctl: Bench) -> None:
    hetctl.cluster.world.unreachable.add("b")
    assert hetctl("stop", "--yes", "chat", "-m", "FILE").code == ExitCode.DONE
    assert hetctl("stop", "--yes", "code", "-m", "FILE").code == ExitCode.UNREACHABLE


@pytest.mark.parametrize(("typed", "made"), [("y\n", ["server/code"]), ("n\n", [])])
def test_it_asks(hetctl: Bench, typed: str, made: list[str]) -> None:
    ended = hetctl("start", "code", "-m", "FILE", interactive=True, typed=typed)
    assert hetctl.cluster.world.made == made
    assert ended.code == (ExitCode.DONE if made else ExitCode.REFUSED)


def test_a_placement_has_to_be_there(hetctl: Bench) -> None:
    ended = hetctl("switch", "--yes", "chess", "-m", "FILE")
    assert ended.code == ExitCode.USAGE
    assert "'chess'" in ended.err
    assert hetctl("stop", "--yes", "-m", "FILE").code == ExitCode.USAGE  # which of the two?


def test_json(hetctl: Bench) -> None:
    ended = hetctl("stop", "--yes", "-o", "json", "chat", "-m", "FILE")
    assert [step["address"] for step in json.loads(ended.out)["steps"]] == ["server/chat"]
