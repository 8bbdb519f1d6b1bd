from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Bench, bench
from tests.engine.toy import ToyCluster, cluster_of, toy


@pytest.fixture
def cluster() -> ToyCluster:
    return cluster_of(toy("x", "a"), toy("y", "b"))


def held(cluster: ToyCluster, silent: float, *nodes: str) -> None:
    for node in nodes:
        cluster.world.nodes[node].holder = "anna@desk"
        cluster.world.nodes[node].silent = silent


@pytest.fixture
def run(cluster: ToyCluster, tmp_path: Path) -> Bench:
    return bench(cluster, tmp_path)


def test_free_locks_need_nothing(run: Bench) -> None:
    ended = run("unlock", "FILE")
    assert ended.code == 0
    assert "0 locks held, 2 free" in ended.out


def test_a_lock_whose_holder_works_is_shown_and_left(run: Bench, cluster: ToyCluster) -> None:
    held(cluster, 3, "a")
    ended = run("unlock", "--yes", "FILE")
    assert ended.code == 6
    assert "anna@desk" in ended.out
    assert "process 4711" in ended.out
    assert "--force" in ended.out
    assert cluster.world.nodes["a"].holder


def test_an_abandoned_lock_is_freed_with_consent(run: Bench, cluster: ToyCluster) -> None:
    held(cluster, 90, "a")
    asked = run("unlock", "FILE")
    assert asked.code == 9
    assert "hetctl unlock --yes" in asked.err
    assert cluster.world.nodes["a"].holder
    ended = run("unlock", "--yes", "FILE")
    assert ended.code == 0
    assert "a  free: ended python3 (4711)" in ended.out
    assert not cluster.world.nodes["a"].holder


def test_only_the_abandoned_one_of_two_is_freed(run: Bench, cluster: ToyCluster) -> None:
    held(cluster, 90, "a")
    held(cluster, 3, "b")
    assert run("unlock", "--yes", "FILE").code == 6
    assert [cluster.world.nodes[node].holder for node in ("a", "b")] == ["", "anna@desk"]
    assert run("unlock", "--yes", "--force", "FILE").code == 0
    assert not cluster.world.nodes["b"].holder


def test_a_person_may_say_no(run: Bench, cluster: ToyCluster) -> None:
    held(cluster, 90, "a")
    assert run("unlock", "FILE", typed="n\n", interactive=True).code == 9
    assert cluster.world.nodes["a"].holder
    assert run("unlock", "FILE", typed="y\n", interactive=True).code == 0


def test_the_document_says_the_same(run: Bench, cluster: ToyCluster) -> None:
    held(cluster, 90, "a")
    document = json.loads(run("unlock", "--yes", "-o", "json", "FILE").out)
    assert document["held"][0]["abandoned"] is True
    assert document["ended"] == {"a": ["python3 (4711)"]}
    assert document["exitCode"] == 0


def test_a_node_that_is_silent_is_said_to_be(run: Bench, cluster: ToyCluster) -> None:
    cluster.world.unreachable.add("b")
    ended = run("unlock", "FILE")
    assert ended.code == 5
    assert "b  ? unknown" in ended.out
    assert run("unlock", "--allow-unreachable", "b", "FILE").code == 0
