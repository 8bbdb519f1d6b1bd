"""Which placements run: declared, remembered by a group, or asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetctl.resources.activity import RUNNING, STOPPED, running_placements, runs
from hetctl.resources.base import Action, Cost, Observed
from hetctl.resources.marks import PROVED, mark_for
from hetctl.resources.registry import KINDS
from tests.resources.den import Den

NODES = """
nodes:
  atlas: {address: 10.0.0.5}
  bench: {address: 10.0.0.7, cpuWorkers: {left: {threads: 4}}}
"""
GROUP = """
placements:
  chat: {model: gemma, devices: [bench/left], group: evening, server: {node: atlas}, rpc: {port: 20052}}
  code: {model: gemma, devices: [bench/left], group: evening, server: {node: atlas}, rpc: {port: 20052}}
  late: {model: gemma, devices: [bench/left], group: evening, server: {node: atlas}, state: stopped}
"""  # fmt: skip
ALONE = """
placements:
  chat: {model: gemma, devices: [bench/left], server: {node: atlas, allowFrom: [10.9.0.0/16]}, state: STATE}
"""


def den(folder: Path, placements: str = GROUP) -> Den:
    return Den(folder, NODES + placements)


def running(it: Den) -> set[str]:
    return set(running_placements(it.inputs))


def test_the_first_member_that_may_runs_at_first(tmp_path: Path) -> None:
    assert running(den(tmp_path)) == {"chat"}
    stopped = GROUP.replace("chat: {", "chat: {state: stopped, ")
    assert running(den(tmp_path, stopped)) == {"code"}


def test_a_group_remembers_which_member_runs(tmp_path: Path) -> None:
    switched = replace(den(tmp_path), states={"chat": STOPPED, "code": RUNNING, "late": STOPPED})
    assert running(switched) == {"code"}
    later = replace(switched.applied(), states={})
    assert running(later) == {"code"}
    assert later.codes() == {"API_OPEN"}


def test_a_group_of_which_all_were_stopped_stays_so(tmp_path: Path) -> None:
    stopped = replace(den(tmp_path).applied(), states={"chat": STOPPED})
    assert running(stopped) == set()
    later = replace(stopped.applied(), states={})
    assert running(later) == set()
    assert "GROUP_IDLE" in later.codes()


def test_an_unread_node_may_know_better(tmp_path: Path) -> None:
    silent = replace(den(tmp_path), facts={"atlas": None})
    assert running(silent) == set()


def test_a_second_member_cannot_be_started_beside_the_first(tmp_path: Path) -> None:
    both = replace(den(tmp_path).applied(), states={"code": RUNNING})
    assert "GROUP_BUSY" in both.troubles()
    fixes = [finding.fix for finding in both.state.findings if finding.code == "GROUP_BUSY"]
    assert fixes == ["hetctl switch code"]


def test_a_member_that_takes_over_waits_for_those_that_stop(tmp_path: Path) -> None:
    switched = replace(den(tmp_path).applied(), states={"chat": STOPPED, "code": RUNNING, "late": STOPPED})
    wanted = switched.wanted
    assert {"worker/chat@bench.left", "server/chat"} <= set(wanted["worker/code@bench.left"].depends_on)
    assert "server/code" not in wanted["server/chat"].depends_on


@pytest.mark.parametrize(("state", "rules"), [("running", 1), ("stopped", 0)])
def test_a_port_that_nobody_serves_is_not_guarded(tmp_path: Path, state: str, rules: int) -> None:
    wanted = den(tmp_path, ALONE.replace("STATE", state)).wanted
    assert [len(wanted[f"firewall/chat@{node}"].spec["ports"]) for node in ("atlas", "bench")] == [rules] * 2


def test_what_is_stopped_has_no_endpoint(tmp_path: Path) -> None:
    assert den(tmp_path, ALONE.replace("STATE", "stopped")).state.endpoints == ()
    assert len(den(tmp_path, ALONE.replace("STATE", "running")).state.endpoints) == 1


@pytest.mark.parametrize("address", ["worker/chat@bench.left", "server/chat"])
@pytest.mark.parametrize(
    ("before", "after", "cost"),
    [
        ("running", "stopped", Cost.SERVICE_RESTART),
        ("stopped", "running", Cost.MODEL_RELOAD),
    ],
)
def test_the_plan_says_who_asked_for_it(
    tmp_path: Path, address: str, before: str, after: str, cost: Cost
) -> None:
    old = den(tmp_path, ALONE.replace("STATE", before)).wanted[address]
    new = den(tmp_path, ALONE.replace("STATE", after)).wanted[address]
    mark = mark_for(old, cluster="den", generation=1, state=PROVED)
    change = KINDS[new.kind].compare(new, Observed(mark))
    assert (change.action, change.cost) == (Action.UPDATE, cost)
    [reason] = change.reasons
    assert reason.text == f"state {before} -> {after}"
    assert reason.position is not None
    assert runs(new.spec) is (after == "running")


def test_a_stopped_process_is_expected_not_to_run(tmp_path: Path) -> None:
    item = den(tmp_path, ALONE.replace("STATE", "stopped")).wanted["worker/chat@bench.left"]
    unit = {"type": "unit", "name": item.spec["unit"]}
    mark = mark_for(item, cluster="den", generation=1, state=PROVED, objects=(unit,))
    resting = {"load": "loaded", "active": "inactive", "enabled": "disabled"}
    kind = KINDS["worker"]
    assert kind.compare(item, Observed(mark, (resting,))).action is Action.NONE
    started = kind.compare(item, Observed(mark, ({**resting, "active": "active"},)))
    assert [reason.text for reason in started.reasons] == [
        f"{item.spec['unit']} is active and should not run"
    ]
    assert kind.compare(item, Observed(mark, ({**resting, "enabled": "enabled"},))).action is Action.UPDATE
