from __future__ import annotations

import pytest

from hetctl.engine.inquiry import ask, chosen_placement, logs, status
from hetctl.engine.operations import ApplyOptions, apply
from hetctl.errors import ExitCode, NodeUnreachable, UsageError, worst
from hetctl.resources.view import (
    Health,
    JournalLine,
    JournalSource,
    Question,
)
from tests.engine.toy import ToyCluster, Yes, cluster_of, toy


def two() -> ToyCluster:
    return cluster_of(
        toy("worker/chat", "b", gang="chat"),
        toy("server/chat", "a", gang="chat", depends_on=("worker/chat",)),
        toy("server/embed", "a", gang="embed"),
        nodes=("a", "b"),
    )


def test_status_follows_what_the_nodes_say() -> None:
    cluster = two()
    before = status(cluster)
    assert [placement.health for placement in before.placements] == [Health.ABSENT, Health.ABSENT]
    assert worst(list(before.codes)) is ExitCode.UNHEALTHY
    apply(cluster, Yes(), ApplyOptions())
    cluster.world.opened.clear()
    after = status(cluster)
    assert worst(list(after.codes)) is ExitCode.DONE
    assert sorted(cluster.world.opened) == [("a", False), ("b", False)]


def test_status_of_a_silent_node_is_unknown() -> None:
    cluster = two()
    apply(cluster, Yes(), ApplyOptions())
    cluster.world.unreachable.add("b")
    result = status(cluster)
    assert [placement.health for placement in result.placements] == [Health.UNKNOWN, Health.READY]
    assert set(result.codes) == {ExitCode.DONE, ExitCode.UNREACHABLE, ExitCode.UNHEALTHY}
    assert sorted(result.unknown) == ["b"]


def test_ask_goes_to_the_head_only() -> None:
    cluster = two()
    heard: list[str] = []
    answer = ask(cluster, "chat", Question("hi"), heard.append)
    assert "".join(heard) == answer.text == "hello "
    assert cluster.world.opened == [("a", False)]


def test_ask_an_unreachable_head() -> None:
    cluster = two()
    cluster.world.unreachable.add("a")
    with pytest.raises(NodeUnreachable):
        ask(cluster, "chat", Question("hi"), lambda _: None)


def test_the_placement_may_be_left_out_when_there_is_one() -> None:
    assert chosen_placement(cluster_of(toy("server/chat", "a", gang="chat")), None) == "chat"
    assert chosen_placement(two(), "embed") == "embed"
    with pytest.raises(UsageError, match="which placement"):
        chosen_placement(two(), None)
    with pytest.raises(UsageError, match="'chap'"):
        chosen_placement(two(), "chap")


def test_logs_of_all_units_are_merged_by_time() -> None:
    cluster = two()
    seen: list[tuple[str, str]] = []
    unknown = logs(
        cluster,
        "chat",
        lines=2,
        follow=False,
        emit=lambda source, line: seen.append((source.node, line.message)),
    )
    assert unknown == {}
    assert sorted(seen[:2]) == [("a", "server/chat line 0"), ("b", "worker/chat line 0")]
    assert sorted(seen[2:]) == [("a", "server/chat line 1"), ("b", "worker/chat line 1")]


@pytest.mark.parametrize("follow", [True, False])
def test_logs_name_the_node_they_could_not_read(follow: bool) -> None:
    cluster = two()
    cluster.world.unreachable.add("b")
    seen: list[str] = []

    def emit(source: JournalSource, line: JournalLine) -> None:  # noqa: ARG001 - the node is what counts
        seen.append(source.node)

    assert sorted(logs(cluster, "chat", lines=1, follow=follow, emit=emit)) == ["b"]
    assert set(seen) == {"a"}


def test_following_two_units_of_one_node_takes_two_sessions() -> None:
    cluster = cluster_of(toy("worker/x", "a", gang="x"), toy("server/x", "a", gang="x"))
    seen: list[str] = []
    logs(
        cluster,
        "x",
        lines=0,
        follow=True,
        emit=lambda source, line: seen.append(f"{source.address} {line.time}"),
    )
    assert sorted(seen) == ["server/x 99.0", "worker/x 99.0"]
    assert cluster.world.opened == [("a", False), ("a", False)]
