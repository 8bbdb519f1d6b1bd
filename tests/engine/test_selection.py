"""A plan for a part of a cluster."""

from __future__ import annotations

import pytest

from hetctl.engine.operations import ApplyOptions, apply, diff
from hetctl.engine.selection import limited, narrowed
from hetctl.errors import UsageError
from hetctl.resources.base import Change
from tests.engine.toy import Yes, cluster_of, toy

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


@pytest.mark.parametrize(
    ("targets", "kept"),
    [
        (["code"], {"server/code"}),
        (["server/code@c"], {"server/code"}),
        (["build/main", "code"], {"build/main", "server/code"}),
        (["chat"], {"build/main", "build/main@b", "worker/chat", "server/chat"}),
        ([], {"build/main", "build/main@b", "worker/chat", "server/chat", "server/code"}),
    ],
)
def test_targets_are_placements_and_resources(targets: list[str], kept: set[str]) -> None:
    plan = limited(diff(CLUSTER), targets).plan
    assert {change.address for change in plan.changes} == kept
    assert plan.left_out == 5 - len(kept)
    assert plan.targets == tuple(sorted(targets))


def test_a_target_has_to_be_there() -> None:
    with pytest.raises(UsageError) as raised:
        diff(CLUSTER, ["server/caht"])
    assert "did you mean 'server/chat'?" in raised.value.fix


def test_what_restarts_because_of_a_target_goes_with_it() -> None:
    cluster = cluster_of(
        toy("build/main", "a"), toy("server/chat", "a", gang="chat", depends_on=("build/main",))
    )
    apply(cluster, Yes(), ApplyOptions())
    cluster.world.nodes["a"].store["build/main"] = {"value": "edited"}
    cluster.restarts_with = {"server/chat": "build/main"}
    addresses = {change.address for change in diff(cluster, ["build/main"]).plan.changes}
    assert addresses == {"build/main", "server/chat"}


def test_apply_executes_the_targets_only() -> None:
    cluster = cluster_of(toy("server/chat", "a", gang="chat"), toy("server/code", "b", gang="code"))
    apply(cluster, Yes(), ApplyOptions(targets=frozenset({"code"})))
    assert cluster.world.made == ["server/code"]
