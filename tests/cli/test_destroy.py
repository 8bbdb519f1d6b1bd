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
        toy("model/gemma", "a"), toy("server/chat", "a", gang="chat", depends_on=("model/gemma",))
    )
    it = bench(cluster, tmp_path)
    assert it("apply", "--yes", "FILE").code == 0
    cluster.world.opened.clear()
    return it


def marks(hetctl: Bench) -> list[str]:
    return sorted(hetctl.cluster.world.nodes["a"].marks)


def test_confirm(hetctl: Bench) -> None:
    ended = hetctl("destroy", "--confirm", "toybox", "FILE")
    assert ended.code == ExitCode.DONE
    assert marks(hetctl) == []
    assert "2 done, 0 failed, 0 skipped, 0 not reached.\n" in ended.out
    assert "curl" not in ended.out


@pytest.mark.parametrize(("typed", "code"), [("toybox\n", 0), ("y\n", 9), ("yes\n", 9), ("", 9)])
def test_the_name_has_to_be_typed(hetctl: Bench, typed: str, code: int) -> None:
    ended = hetctl("destroy", "FILE", interactive=True, typed=typed)
    assert ended.code == code
    assert "Type the cluster's name" in ended.err
    assert bool(marks(hetctl)) is (code != 0)


def test_without_a_terminal_it_needs_the_name(hetctl: Bench) -> None:
    ended = hetctl("destroy", "FILE")
    assert ended.code == ExitCode.USAGE
    assert "--confirm NAME" in ended.err
    assert hetctl.cluster.world.opened == []
    assert hetctl("destroy", "--yes", "FILE").code == ExitCode.USAGE


def test_another_name_is_a_mistake(hetctl: Bench) -> None:
    ended = hetctl("destroy", "--confirm", "production", "FILE")
    assert ended.code == ExitCode.USAGE
    assert "'toybox'" in ended.err
    assert hetctl.cluster.world.opened == []


def test_keep_models(hetctl: Bench) -> None:
    assert hetctl("destroy", "--confirm", "toybox", "--keep-models", "FILE").code == 0
    assert marks(hetctl) == ["model/gemma"]


def test_a_failure_leads_to_the_same_command(hetctl: Bench) -> None:
    hetctl.cluster.world.failing.add("server/chat")
    ended = hetctl("destroy", "--confirm", "toybox", "FILE")
    assert ended.code == ExitCode.APPLIED_IN_PART
    assert f"Next: hetctl destroy {hetctl.manifest}\n" in ended.out
    assert len(marks(hetctl)) == 2


def test_an_unreachable_node_stays_recorded_and_is_5(hetctl: Bench) -> None:
    hetctl.cluster.world.unreachable.add("a")
    ended = hetctl("destroy", "--confirm", "toybox", "FILE")
    assert ended.code == ExitCode.UNREACHABLE
    assert "stays recorded" in ended.out
    assert len(marks(hetctl)) == 2


def test_json_and_nothing_left(hetctl: Bench) -> None:
    hetctl("destroy", "--confirm", "toybox", "FILE")
    document = json.loads(hetctl("destroy", "--confirm", "toybox", "-o", "json", "FILE").out)
    assert (document["executed"], document["exitCode"], document["plan"]["purpose"]) == (False, 0, "destroy")
    assert "nothing left to remove" in hetctl("destroy", "--confirm", "toybox", "FILE").out


def test_a_node_and_a_name_do_instead_of_a_manifest(hetctl: Bench) -> None:
    ended = hetctl("destroy", "--node", "root@10.0.0.5", "--cluster", "toybox", "--confirm", "toybox")
    assert ended.code == ExitCode.DONE
    assert hetctl.found == [("toybox", "root@10.0.0.5")]
    assert marks(hetctl) == []


@pytest.mark.parametrize(
    "options", [("--node", "a"), ("--cluster", "toybox"), ("--node", "a", "--cluster", "toybox", "FILE")]
)
def test_node_and_cluster_go_together_and_without_a_manifest(hetctl: Bench, options: tuple[str, ...]) -> None:
    assert hetctl("destroy", "--confirm", "toybox", *options).code == ExitCode.USAGE
    assert marks(hetctl) != []
