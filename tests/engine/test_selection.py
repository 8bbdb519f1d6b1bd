"""A plan for a part of a cluster."""

from __future__ import annotations

from hetctl.engine.operations import diff
from hetctl.engine.selection import narrowed
from hetctl.resources.base import Change
from tests.engine.toy import cluster_of, toy

CLUSTER = cluster_of(
    toy("build/main", "a"),
    toy("build/main@b", "b"),
    toy("worker/chat", "b", gang="chat", depends_on=("build/main@b",)),
    toy("server/chat", "a", gang="chat", depends_on=("build/main", "worker/chat")),
    toy("server/code", "c", gang="code"),
)


def addresses(chosen: str) -> set[str]:
    def wanted(change: Change) -> bool:
        return change.address == chosen

    return {change.address for change in narrowed(diff(CLUSTER), wanted).plan.changes}


def test_what_is_chosen_brings_what_it_stands_on() -> None:
    assert addresses("build/main") == {"build/main"}
    assert addresses("server/code") == {"server/code"}


def test_a_gang_is_never_divided() -> None:
    whole = {"build/main", "build/main@b", "worker/chat", "server/chat"}
    assert addresses("worker/chat") == addresses("server/chat") == whole


def test_what_has_no_part_in_it_is_not_spoken_of() -> None:
    CLUSTER.world.unreachable.add("c")
    try:
        situation = diff(CLUSTER)
        assert situation.plan.nodes_unknown
        plan = narrowed(situation, lambda change: change.gang == "chat").plan
        assert plan.nodes_unknown == {}
        assert [gang.placement for gang in plan.gangs] == ["chat"]
    finally:
        CLUSTER.world.unreachable.clear()
