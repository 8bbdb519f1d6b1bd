from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hetctl.engine import lock
from hetctl.engine.lock import holder, locked
from hetctl.errors import LockHeld
from tests.engine.toy import ToyCluster, cluster_of


def three() -> ToyCluster:
    return cluster_of(nodes=("a", "b", "c"))


def holders(cluster: ToyCluster) -> list[str]:
    return [node.holder for node in cluster.world.nodes.values()]


def test_holds_every_node_and_frees_them_at_the_end() -> None:
    cluster = three()
    with locked(cluster.targets(), {"who": "me"}) as sessions:
        assert holders(cluster) == ["me", "me", "me"]
        assert sorted(sessions.open) == ["a", "b", "c"]
    assert holders(cluster) == ["", "", ""]


def test_frees_them_when_the_work_fails() -> None:
    cluster = three()
    with pytest.raises(ZeroDivisionError), locked(cluster.targets(), {"who": "me"}):
        raise ZeroDivisionError
    assert holders(cluster) == ["", "", ""]


def test_all_or_none() -> None:
    cluster = three()
    cluster.world.nodes["b"].holder = "ada"
    cluster.world.nodes["c"].holder = "bob"
    with pytest.raises(LockHeld) as caught, locked(cluster.targets(), {"who": "me"}):
        raise AssertionError("not ours")
    assert caught.value.where == "b, c"
    assert "ada" in caught.value.why
    assert "bob" in caught.value.why
    assert holders(cluster) == ["", "ada", "bob"]


def test_an_unreachable_node_is_unknown_and_the_others_are_held() -> None:
    cluster = three()
    cluster.world.unreachable.add("b")
    with locked(cluster.targets(), {"who": "me"}) as sessions:
        assert holders(cluster) == ["me", "", "me"]
        assert sorted(sessions.unknown) == ["b"]


def test_waits_as_long_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "BACK_OFF", (0.01, 0.02))
    cluster = three()
    cluster.world.nodes["b"].holder = "ada"
    waited: list[LockHeld] = []

    def told(held: LockHeld) -> None:
        waited.append(held)
        # While it waits it holds nothing, so the other one can finish.
        assert holders(cluster) == ["", "ada", ""]
        if len(waited) == 2:
            cluster.world.nodes["b"].holder = ""

    with locked(cluster.targets(), {"who": "me"}, wait=20, on_wait=told):
        assert holders(cluster) == ["me", "me", "me"]
    assert len(waited) == 2
    assert "ada" in waited[0].why


def test_gives_up_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "BACK_OFF", (0.01, 0.02))
    cluster = three()
    cluster.world.nodes["b"].holder = "ada"
    with pytest.raises(LockHeld), locked(cluster.targets(), {"who": "me"}, wait=0.1):
        raise AssertionError("not ours")


def test_the_holder_says_who_when_and_from_which_commit(tmp_path: Path) -> None:
    manifest = tmp_path / "cluster.yaml"
    manifest.write_text("kind: Cluster\n")
    assert holder("apply", "den", manifest)["commit"] == ""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    who = holder("apply", "den", manifest)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert head.startswith(who["commit"])
    assert len(who["commit"]) >= 12
    assert "@" in who["who"]
    assert who["cluster"] == "den"
    assert who["since"].endswith("+00:00")
