from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetctl.engine.interrupt import Interrupts
from hetctl.engine.operations import ApplyOptions, apply, destroy, diff, diff_codes
from hetctl.engine.outcome import Result
from hetctl.errors import ExitCode, LockHeld, PlanStale, worst
from hetctl.resources.base import Action, Desired
from hetctl.resources.provider import DesiredState, Gate
from hetctl.rules.finding import Finding, Severity
from tests.engine.toy import ToyCluster, ToyNode, Yes, cluster_of, redeclared, toy

ALL = ApplyOptions(prune=True)


def chat() -> ToyCluster:
    return cluster_of(
        toy("model/gemma", "a"),
        toy("worker/chat", "b", gang="chat"),
        toy("server/chat", "a", gang="chat", depends_on=("worker/chat", "model/gemma")),
        toy("member/c", "c"),
    )


def test_diff_is_one_exec_a_node_and_writes_nothing() -> None:
    cluster = chat()
    situation = diff(cluster)
    assert sorted(cluster.world.opened) == [("a", False), ("b", False), ("c", False)]
    assert sorted(cluster.world.closed) == ["a", "b", "c"]
    assert len(situation.plan.pending) == 4
    assert all(node.prepared == 0 and not node.marks for node in cluster.world.nodes.values())
    assert worst(list(diff_codes(situation.plan))) is ExitCode.CHANGES_PENDING


def test_apply_reads_then_locks_and_reads_again() -> None:
    cluster, yes = chat(), Yes()
    result = apply(cluster, yes, ALL)
    assert result.report is not None
    assert {outcome.result for outcome in result.report.outcomes} == {Result.DONE}
    assert worst(list(result.codes)) is ExitCode.DONE
    assert cluster.world.opened.count(("a", False)) == 1
    assert cluster.world.opened.count(("a", True)) == 1
    assert [changed for _, changed in yes.seen] == [False]
    assert all(node.holder == "" for node in cluster.world.nodes.values())


def test_only_nodes_that_hold_something_of_ours_are_prepared() -> None:
    cluster = chat()
    apply(cluster, Yes(), ALL)
    assert {node.prepared for node in cluster.world.nodes.values()} == {0}  # each is when it is recorded
    cluster.resources = (*cluster.resources, toy("model/late", "a"))
    apply(cluster, Yes(), ALL)
    assert {node.prepared for node in cluster.world.nodes.values()} == {1}
    destroy(cluster, Yes(), ALL)
    assert {node.prepared for node in cluster.world.nodes.values()} == {1}


def test_apply_with_nothing_to_do_is_one_exec_a_node_and_no_lock() -> None:
    cluster = chat()
    apply(cluster, Yes(), ALL)
    cluster.world.opened.clear()
    yes = Yes()
    result = apply(cluster, yes, ALL)
    assert sorted(cluster.world.opened) == [("a", False), ("b", False), ("c", False)]
    assert yes.seen == []
    assert result.report is None
    assert result.codes == (ExitCode.DONE,)


def test_no_is_no() -> None:
    cluster = chat()
    result = apply(cluster, Yes(answer=False), ALL)
    assert result.declined
    assert worst(list(result.codes)) is ExitCode.REFUSED
    assert all(not node.marks and node.prepared == 0 for node in cluster.world.nodes.values())
    assert not any(write for _, write in cluster.world.opened)


def test_a_held_lock_leaves_every_node_alone() -> None:
    cluster = chat()
    cluster.world.nodes["b"].holder = "ada@laptop"
    with pytest.raises(LockHeld) as caught:
        apply(cluster, Yes(), ALL)
    assert caught.value.where == "b"
    assert "ada@laptop" in caught.value.why
    assert [node.holder for node in cluster.world.nodes.values()] == ["", "ada@laptop", ""]
    assert all(not node.marks for node in cluster.world.nodes.values())


def test_a_plan_that_changed_meanwhile_is_shown_again() -> None:
    cluster = chat()

    def somebody_was_faster() -> None:
        other = redeclared(cluster, toy("member/c", "c"))
        assert apply(other, Yes(), ApplyOptions()).report is not None

    yes = Yes(meanwhile=somebody_was_faster)
    apply(cluster, yes, ALL)
    assert [changed for _, changed in yes.seen] == [False, True]
    assert len(yes.seen[0][0].pending) == 4
    assert len(yes.seen[1][0].pending) == 3


def test_a_second_no_after_a_change_stops_too() -> None:
    cluster = chat()

    class Doubtful(Yes):
        def agreed(self, plan, *, changed):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - as `Yes`
            self.seen.append((plan, changed))
            if not changed:
                cluster.world.nodes["a"].store["model/gemma"] = {"value": 9}
                cluster.resources = (*cluster.resources, toy("late", "a"))
            return not changed

    result = apply(cluster, Doubtful(), ALL)
    assert result.declined
    assert all(not node.marks and node.holder == "" for node in cluster.world.nodes.values())


def test_a_saved_plan_runs_once() -> None:
    cluster = chat()
    saved = diff(cluster).plan.fingerprint
    assert apply(cluster, Yes(), replace(ALL, expected=saved)).report is not None
    with pytest.raises(PlanStale):
        apply(cluster, Yes(), replace(ALL, expected=saved))


def test_removals_need_prune() -> None:
    cluster = chat()
    apply(cluster, Yes(), ALL)
    smaller = redeclared(cluster, toy("model/gemma", "a"), toy("late", "b"), nodes=("a", "b", "c"))
    result = apply(smaller, Yes(), ApplyOptions())
    assert "server/chat" in cluster.world.nodes["a"].marks
    assert "late" in cluster.world.nodes["b"].marks
    assert worst(list(result.codes)) is ExitCode.APPLIED_IN_PART
    again = apply(smaller, Yes(), ApplyOptions())
    assert again.report is None
    assert worst(list(again.codes)) is ExitCode.REFUSED
    pruned = apply(smaller, Yes(), ALL)
    assert worst(list(pruned.codes)) is ExitCode.DONE
    assert sorted(cluster.world.nodes["a"].marks) == ["model/gemma"]


def test_an_unreachable_node_is_named_and_the_rest_goes_on() -> None:
    cluster = chat()
    cluster.world.unreachable.add("b")
    result = apply(cluster, Yes(), ALL)
    assert worst(list(result.codes)) is ExitCode.UNREACHABLE
    assert sorted(cluster.world.made) == ["member/c", "model/gemma"]
    assert cluster.world.opened.count(("b", True)) == 0
    allowed = apply(cluster, Yes(), replace(ALL, allow_unreachable=frozenset({"b"})))
    assert worst(list(allowed.codes)) is ExitCode.DONE


def test_a_node_that_answers_no_more_is_never_pruned() -> None:
    cluster = chat()
    apply(cluster, Yes(), ALL)
    cluster.world.unreachable.add("b")
    nothing = redeclared(cluster, nodes=("a", "b", "c"))
    apply(nothing, Yes(), ALL)
    assert sorted(cluster.world.nodes["b"].marks) == ["worker/chat"]


def test_a_blocking_finding_refuses_before_anything_is_touched() -> None:
    cluster = chat()
    cluster.state = DesiredState((), findings=(Finding("NO_DRIVER", Severity.ERROR, "a/fast", "no driver"),))
    yes = Yes()
    result = apply(cluster, yes, ALL)
    assert worst(list(result.codes)) is ExitCode.REFUSED
    assert yes.seen == []
    assert result.report is None
    assert not any(write for _, write in cluster.world.opened)


def test_something_in_the_way_leaves_the_rest_applied_in_part() -> None:
    cluster = cluster_of(toy("x", "a", spec={"foreign": True}), toy("y", "a"))
    assert worst(list(apply(cluster, Yes(), ALL).codes)) is ExitCode.APPLIED_IN_PART
    assert worst(list(apply(cluster, Yes(), ALL).codes)) is ExitCode.REFUSED


def test_a_gate_is_its_own_exit_code() -> None:
    cluster = cluster_of(toy("x", "a"))
    cluster.state = DesiredState((), gates=(Gate("vm/pascal", "a", "reboot a"),))
    assert worst(list(apply(cluster, Yes(), ALL).codes)) is ExitCode.GATE


def test_a_failure_is_named_and_the_next_apply_goes_on() -> None:
    cluster = chat()
    cluster.world.failing.add("worker/chat")
    result = apply(cluster, Yes(), ALL)
    assert result.report is not None
    outcome = {item.step.address: item.result for item in result.report.outcomes}
    assert outcome == {
        "model/gemma": Result.DONE,
        "worker/chat": Result.FAILED,
        "server/chat": Result.SKIPPED,
        "member/c": Result.DONE,
    }
    assert worst(list(result.codes)) is ExitCode.APPLIED_IN_PART
    cluster.world.failing.clear()
    assert worst(list(apply(cluster, Yes(), ALL).codes)) is ExitCode.DONE


def test_an_interrupted_apply_frees_the_locks_and_the_next_one_converges() -> None:
    cluster, interrupts = chat(), Interrupts()
    interrupts.interrupt()
    result = apply(cluster, Yes(), ALL, interrupts=interrupts)
    assert worst(list(result.codes)) is ExitCode.INTERRUPTED
    assert all(node.holder == "" for node in cluster.world.nodes.values())
    assert worst(list(apply(cluster, Yes(), ALL).codes)) is ExitCode.DONE


def test_destroy_removes_what_is_ours_and_nothing_else() -> None:
    cluster = chat()
    apply(cluster, Yes(), ALL)
    cluster.world.nodes["a"].store["foreign"] = {"value": 1}
    result = destroy(cluster, Yes(), ApplyOptions())
    assert worst(list(result.codes)) is ExitCode.DONE
    assert all(not node.marks for node in cluster.world.nodes.values())
    assert cluster.world.nodes["a"].store == {"foreign": {"value": 1}}
    assert destroy(cluster, Yes(), ApplyOptions()).report is None


def test_destroy_heeds_an_error_about_the_nodes() -> None:
    cluster = chat()
    apply(cluster, Yes(), ALL)
    before = {name: dict(node.marks) for name, node in cluster.world.nodes.items()}
    cluster.worries = (
        Finding("MARKS_OF_NEWER_VERSION", Severity.ERROR, "a", "a newer hetctl has been here"),
    )
    result = destroy(cluster, Yes(), ApplyOptions())
    assert worst(list(result.codes)) is ExitCode.REFUSED
    assert result.report is None
    assert {name: dict(node.marks) for name, node in cluster.world.nodes.items()} == before


def test_destroy_can_keep_models() -> None:
    cluster = chat()
    apply(cluster, Yes(), ALL)
    destroy(cluster, Yes(), ApplyOptions(), keep_models=True)
    assert sorted(cluster.world.nodes["a"].marks) == ["model/gemma"]


def test_a_recorded_node_is_locked_before_it_is_emptied() -> None:
    cluster = chat()
    apply(cluster, Yes(), ALL)
    cluster.world.nodes["a"].members = ("a", "b", "c")
    cluster.world.opened.clear()
    without_c = redeclared(cluster, *(item for item in cluster.resources if item.node != "c"))
    result = apply(without_c, Yes(), ALL)
    assert worst(list(result.codes)) is ExitCode.DONE
    assert cluster.world.opened.count(("c", True)) == 1
    assert cluster.world.nodes["c"].marks == {}


def test_a_node_that_appears_in_the_record_meanwhile_is_not_changed_without_its_lock() -> None:
    cluster = chat()
    cluster.world.nodes["d"] = ToyNode()

    def record_grows() -> None:
        cluster.world.nodes["a"].members = ("a", "d")

    cluster.world.before_lock = record_grows
    with pytest.raises(PlanStale):
        apply(cluster, Yes(), ALL)


NODES = ("a", "b", "c")


@st.composite
def manifests(draw: st.DrawFn) -> tuple[Desired, ...]:
    size = draw(st.integers(0, 7))
    addresses = [f"r{index}" for index in draw(st.permutations(range(size)))]
    return tuple(
        toy(
            address,
            draw(st.sampled_from(NODES)),
            draw(st.integers(0, 2)),
            depends_on=tuple(other for other in addresses[:index] if draw(st.integers(0, 3)) == 0),
            gang=draw(st.sampled_from([None, None, "g", "h"])),
        )
        for index, address in enumerate(addresses)
    )


@given(manifests(), manifests(), st.sets(st.sampled_from(NODES), max_size=1))
@settings(deadline=None, max_examples=120)
def test_apply_converges_and_touches_nothing_on_the_strength_of_an_unknown(
    before: tuple[Desired, ...], after: tuple[Desired, ...], silent: set[str]
) -> None:
    cluster = cluster_of(*before, nodes=NODES)
    assert worst(list(apply(cluster, Yes(), ALL).codes)) is ExitCode.DONE
    assert apply(cluster, Yes(), ALL).report is None

    cluster = redeclared(cluster, *after, nodes=NODES)
    cluster.world.unreachable = silent
    earlier = {name: dict(node.marks) for name, node in cluster.world.nodes.items()}
    first = apply(cluster, Yes(), ALL)
    # Whatever waits for the silent node is exactly as it was.
    for change in first.situation.plan.changes:
        if first.situation.plan.waits_for(change) or change.action is Action.UNKNOWN:
            now = cluster.world.nodes[change.node].marks.get(change.address)
            assert now == earlier[change.node].get(change.address)
    second = apply(cluster, Yes(), ALL)
    assert second.report is None

    cluster.world.unreachable = set()
    apply(cluster, Yes(), ALL)
    assert apply(cluster, Yes(), ALL).report is None
    standing = {
        (name, address): mark.spec
        for name, node in cluster.world.nodes.items()
        for address, mark in node.marks.items()
    }
    assert standing == {(item.node, item.address): dict(item.spec) for item in after}


@given(manifests(), st.data())
@settings(deadline=None, max_examples=60)
def test_apply_converges_after_any_failure(resources: tuple[Desired, ...], data: st.DataObject) -> None:
    cluster = cluster_of(*resources, nodes=NODES)
    names = [item.address for item in resources]
    if names:
        cluster.world.failing = data.draw(st.sets(st.sampled_from(names)))
        cluster.world.breaking = data.draw(st.sets(st.sampled_from(names), max_size=1))
    apply(cluster, Yes(), ALL)
    cluster.world.failing, cluster.world.breaking = set(), set()
    apply(cluster, Yes(), ALL)
    assert apply(cluster, Yes(), ALL).report is None
    assert {address for node in cluster.world.nodes.values() for address in node.marks} == set(names)
