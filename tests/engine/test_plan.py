from __future__ import annotations

import pytest

from hetctl.engine.examine import examine
from hetctl.engine.graph import DependencyCycle
from hetctl.engine.operations import ApplyOptions, apply
from hetctl.engine.plan import count
from hetctl.engine.sessions import opened
from hetctl.resources.base import Action, Mark
from hetctl.resources.provider import (
    DesiredState,
    Gate,
    Plan,
    Purpose,
)
from tests.engine.toy import ToyCluster, Yes, cluster_of, redeclared, toy


def plan_of(cluster: ToyCluster, purpose: Purpose = Purpose.APPLY) -> Plan:
    with opened(cluster.targets(), write=False) as sessions:
        return examine(cluster, sessions, purpose).plan


def applied(cluster: ToyCluster) -> ToyCluster:
    result = apply(cluster, Yes(), ApplyOptions(prune=True))
    assert result.report is not None
    return cluster


def actions(plan: Plan) -> dict[str, Action]:
    return {f"{change.address}@{change.node}": change.action for change in plan.changes}


CHAT = (
    toy("build/main", "a"),
    toy("worker/chat", "b", gang="chat"),
    toy("server/chat", "a", gang="chat", depends_on=("worker/chat", "build/main")),
)


def test_everything_is_new_at_first() -> None:
    plan = plan_of(cluster_of(*CHAT))
    assert [change.address for change in plan.changes] == ["build/main", "worker/chat", "server/chat"]
    assert {change.action for change in plan.changes} == {Action.CREATE}
    assert (count(plan).add, count(plan).change, count(plan).remove) == (3, 0, 0)
    assert plan.nodes_read == ("a", "b")


def test_dependencies_come_first_however_they_are_declared() -> None:
    plan = plan_of(cluster_of(*reversed(CHAT)))
    assert [change.address for change in plan.changes] == ["worker/chat", "build/main", "server/chat"]


def test_what_is_not_declared_any_more_goes_in_reverse_order() -> None:
    cluster = redeclared(applied(cluster_of(*CHAT)), nodes=("a", "b"))
    plan = plan_of(cluster)
    assert plan.removals[0].address == "server/chat"
    assert count(plan).remove == 3
    assert plan.executable(prune=False) == ()
    assert len(plan.executable(prune=True)) == 3


def test_nothing_without_a_mark_is_ever_removed() -> None:
    cluster = cluster_of(toy("build/main", "a"))
    cluster.world.nodes["a"].store["model/foreign"] = {"value": 1}
    assert [change.address for change in plan_of(cluster).changes] == ["build/main"]


def test_an_unreachable_node_is_unknown_and_its_gang_waits() -> None:
    cluster = applied(cluster_of(*CHAT, toy("server/other", "a", gang="other")))
    changed = redeclared(
        cluster,
        toy("build/main", "a"),
        toy("worker/chat", "b", gang="chat"),
        toy("server/chat", "a", 1, gang="chat", depends_on=("worker/chat", "build/main")),
        toy("server/other", "a", 1, gang="other"),
    )
    changed.world.unreachable.add("b")
    plan = plan_of(changed)
    assert actions(plan)["worker/chat@b"] is Action.UNKNOWN
    assert plan.nodes_unknown == {"b": "no connection to b: timed out"}
    assert plan.waits == {("server/chat", "a"): "node b"}
    assert [change.address for change in plan.executable(prune=True)] == ["server/other"]


def test_a_gang_without_its_unknown_member_waits_even_where_nothing_depends_on_it() -> None:
    cluster = cluster_of(
        toy("worker/x", "a", gang="x"), toy("server/x", "b", gang="x", depends_on=("worker/x",))
    )
    cluster.world.unreachable.add("b")
    assert plan_of(cluster).waits == {("worker/x", "a"): "node b"}


def test_waiting_goes_through_gangs_and_dependencies() -> None:
    cluster = cluster_of(
        toy("worker/x", "a", gang="x"),
        toy("server/x", "b", gang="x"),
        toy("front", "b", depends_on=("server/x",)),
        toy("alone", "b"),
    )
    cluster.world.unreachable.add("a")
    plan = plan_of(cluster)
    assert plan.waits == {("server/x", "b"): "node a", ("front", "b"): "node a"}
    assert [change.address for change in plan.executable(prune=False)] == ["alone"]


def test_a_dependency_that_is_in_place_holds_nothing_up() -> None:
    cluster = applied(cluster_of(toy("deep", "a"), toy("middle", "b", depends_on=("deep",))))
    grown = redeclared(
        cluster,
        toy("deep", "a"),
        toy("middle", "b", depends_on=("deep",)),
        toy("top", "b", depends_on=("middle",)),
    )
    grown.world.unreachable.add("a")
    assert [change.address for change in plan_of(grown).executable(prune=False)] == ["top"]


def test_a_blocked_resource_holds_up_its_gang() -> None:
    cluster = cluster_of(
        toy("worker/x", "a", gang="x", spec={"foreign": True}),
        toy("server/x", "b", gang="x", depends_on=("worker/x",)),
        toy("server/y", "b", gang="y"),
    )
    plan = plan_of(cluster)
    assert plan.waits == {("server/x", "b"): "worker/x (blocked)"}
    assert count(plan).blocked == 1


def test_a_damaged_mark_is_made_again_where_it_is_declared_and_unknown_elsewhere() -> None:
    cluster = applied(cluster_of(toy("build/main", "a"), toy("build/old", "a")))
    here = cluster.world.nodes["a"]
    del here.marks["build/main"], here.marks["build/old"]
    here.damaged.update({"build/main": "not JSON", "build/old": "not JSON"})
    plan = plan_of(redeclared(cluster, toy("build/main", "a")))
    assert actions(plan) == {"build/main@a": Action.CREATE, "build/old@a": Action.UNKNOWN}
    assert "damaged" in plan.pending[0].reasons[0].text
    assert [change.address for change in plan.pending] == ["build/main"]


def test_what_a_damaged_mark_may_use_is_not_removed() -> None:
    cluster = applied(cluster_of(toy("build/main", "a"), toy("worker/x", "a", gang="x")))
    here = cluster.world.nodes["a"]
    del here.marks["worker/x"]
    here.damaged["worker/x"] = "not JSON"
    plan = plan_of(redeclared(cluster, nodes=("a",)))
    assert plan.waits == {("build/main", "a"): "worker/x (unknown)"}


def test_a_mark_of_an_unknown_kind_stays() -> None:
    cluster = cluster_of(nodes=("a",))
    cluster.world.nodes["a"].marks["gateway/x"] = Mark("toybox", "gateway/x", "gateway", "a", {}, "", 1)
    plan = plan_of(cluster)
    assert actions(plan) == {"gateway/x@a": Action.UNKNOWN}
    assert "gateway" in plan.changes[0].reasons[0].text


def test_a_moved_resource_is_two_changes() -> None:
    cluster = redeclared(
        applied(cluster_of(toy("server/chat", "a"))), toy("server/chat", "b"), nodes=("a", "b")
    )
    assert actions(plan_of(cluster)) == {"server/chat@b": Action.CREATE, "server/chat@a": Action.REMOVE}


def test_a_node_renamed_in_the_manifest_is_named_as_it_is_now() -> None:
    cluster = applied(cluster_of(toy("build/main", "a")))
    cluster.world.nodes["z"] = cluster.world.nodes.pop("a")
    plan = plan_of(redeclared(cluster, nodes=("z",)))
    assert actions(plan) == {"build/main@z": Action.REMOVE}


def test_a_node_only_the_record_knows_is_visited_and_planned_for_removal() -> None:
    cluster = applied(cluster_of(toy("x", "a"), toy("y", "b")))
    cluster.world.nodes["a"].members = ("a", "b")
    plan = plan_of(redeclared(cluster, toy("x", "a"), nodes=("a",)))
    assert actions(plan) == {"x@a": Action.NONE, "y@b": Action.REMOVE}
    assert plan.nodes_read == ("a", "b")


def test_a_recorded_node_that_is_silent_stays_recorded() -> None:
    cluster = applied(cluster_of(toy("x", "a"), toy("y", "b")))
    cluster.world.nodes["a"].members = ("a", "b")
    cluster.world.unreachable.add("b")
    plan = plan_of(redeclared(cluster, toy("x", "a"), nodes=("a",)))
    assert actions(plan) == {"x@a": Action.NONE, "node/b@b": Action.FORGET}
    assert plan.pending == ()


def test_removal_waits_while_a_user_of_it_is_unknown() -> None:
    cluster = applied(cluster_of(toy("shared", "a"), toy("user", "b", depends_on=("shared",))))
    cluster = redeclared(cluster, toy("user", "b", depends_on=("shared",)), nodes=("a", "b"))
    cluster.world.unreachable.add("b")
    plan = plan_of(cluster)
    assert plan.waits == {("shared", "a"): "node b"}
    assert plan.executable(prune=True) == ()


def test_what_comes_after_a_gate_waits_for_it() -> None:
    cluster = cluster_of(toy("server/chat", "a", depends_on=("worker/chat@vm",)))
    cluster.state = DesiredState(
        resources=(), gates=(Gate("vm/vm", "a", "reboot", after=("worker/chat@vm",)),)
    )
    assert plan_of(cluster).waits == {("server/chat", "a"): "gate vm/vm"}


def test_a_circle_is_an_error_with_its_path() -> None:
    with pytest.raises(DependencyCycle):
        plan_of(cluster_of(toy("x", "a", depends_on=("y",)), toy("y", "a", depends_on=("x",))))


def test_fingerprint_follows_what_the_plan_rests_on() -> None:
    cluster = cluster_of(*CHAT)
    plan = plan_of(cluster)
    assert plan_of(cluster).fingerprint == plan.fingerprint
    applied(cluster)
    assert plan_of(cluster).fingerprint != plan.fingerprint


def test_destroy_wants_nothing() -> None:
    cluster = applied(cluster_of(*CHAT))
    cluster.world.unreachable.add("b")
    plan = plan_of(cluster, Purpose.DESTROY)
    assert actions(plan) == {
        "server/chat@a": Action.REMOVE,
        "build/main@a": Action.REMOVE,
        "node/b@b": Action.FORGET,
    }
