from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hetctl.errors import ExitCode
from hetctl.resources.base import Step, StepContext
from hetctl.resources.provider import DesiredState, Gate
from hetctl.resources.view import Endpoint
from tests.cli.commands import Bench, bench
from tests.engine.toy import cluster_of, redeclared, toy

ROOT = Path(__file__).parents[2]


def schema(name: str) -> Any:
    return json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def hetctl(tmp_path: Path) -> Bench:
    cluster = cluster_of(
        toy("model/gemma", "a"),
        toy("worker/chat", "b", gang="chat"),
        toy("server/chat", "a", gang="chat", depends_on=("worker/chat", "model/gemma")),
    )
    cluster.state = DesiredState(
        (), endpoints=(Endpoint("chat", "http://10.0.0.5:8080/v1", "chat", "env CHAT_KEY"),)
    )
    return bench(cluster, tmp_path)


def marks(hetctl: Bench) -> list[str]:
    return sorted(address for node in hetctl.cluster.world.nodes.values() for address in node.marks)


def test_yes(hetctl: Bench) -> None:
    ended = hetctl("apply", "--yes", "FILE")
    assert ended.code == ExitCode.DONE
    assert marks(hetctl) == ["model/gemma", "server/chat", "worker/chat"]
    assert ended.out.startswith("chat  ~")
    assert (
        f"3 done, 0 failed, 0 skipped, 0 not reached.   Next: hetctl status {hetctl.manifest}\n" in ended.out
    )
    assert "chat  http://10.0.0.5:8080/v1  model chat  key env CHAT_KEY\n  curl " in ended.out
    assert "a: make model/gemma: done" in ended.err


def test_without_a_terminal_consent_has_to_be_given_before_anything_is_read(hetctl: Bench) -> None:
    ended = hetctl("apply", "FILE")
    assert ended.code == ExitCode.USAGE
    assert "--yes" in ended.err
    assert hetctl.cluster.world.opened == []


@pytest.mark.parametrize(
    ("typed", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 9), ("\n", 9), ("", 9), ("maybe\n", 9)]
)
def test_asking(hetctl: Bench, typed: str, code: int) -> None:
    ended = hetctl("apply", "FILE", interactive=True, typed=typed)
    assert ended.code == code
    assert "Execute 3 changes on toybox? [y/N]" in ended.err
    assert bool(marks(hetctl)) is (code == 0)
    if code:
        assert ended.err.endswith("Nothing was changed.\n")


def test_nothing_to_do_asks_nothing(hetctl: Bench) -> None:
    hetctl("apply", "--yes", "FILE")
    ended = hetctl("apply", "FILE", interactive=True)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "No changes: toybox is as declared; 2 nodes read, 0 unknown.\n"


def test_yes_does_not_mean_prune(hetctl: Bench) -> None:
    hetctl("apply", "--yes", "FILE")
    hetctl.cluster = redeclared(hetctl.cluster, toy("model/gemma", "a"), nodes=("a", "b"))
    ended = hetctl("apply", "--yes", "FILE")
    assert ended.code == ExitCode.REFUSED
    assert "2 removals left out: add --prune to execute" in ended.out
    assert f"Next: hetctl apply --prune {hetctl.manifest}" in ended.out
    assert marks(hetctl) == ["model/gemma", "server/chat", "worker/chat"]
    assert hetctl("apply", "--yes", "--prune", "FILE").code == 0
    assert marks(hetctl) == ["model/gemma"]


def test_a_failure_is_named_with_what_it_left_out(hetctl: Bench) -> None:
    hetctl.cluster.world.failing.add("worker/chat")
    ended = hetctl("apply", "--yes", "FILE")
    assert ended.code == ExitCode.APPLIED_IN_PART
    assert "failed  make worker/chat" in ended.out
    assert "skipped  make server/chat  because make worker/chat failed" in ended.out
    assert "error: worker/chat does not want to\n  where: b\n  why:   it is a toy\n" in ended.out
    assert f"Next: hetctl apply {hetctl.manifest}\n" in ended.out
    assert "curl" not in ended.out


def test_a_bug_in_a_step_is_1_and_the_rest_is_reported(hetctl: Bench) -> None:
    def bug(_: StepContext) -> None:
        raise ZeroDivisionError

    hetctl.cluster.extra_steps = (Step(name="odd", address="odd", node="b", run=bug),)
    ended = hetctl("apply", "--yes", "FILE")
    assert ended.code == ExitCode.BUG
    assert "failed  odd" in ended.out
    assert "Traceback" in ended.err
    assert "This is a bug in hetctl" in ended.err
    assert len(marks(hetctl)) == 3


def test_a_held_lock_is_6_and_says_who(hetctl: Bench) -> None:
    hetctl.cluster.world.nodes["b"].holder = "ada@laptop"
    ended = hetctl("apply", "--yes", "FILE")
    assert ended.code == ExitCode.LOCKED
    assert "ada@laptop" in ended.err
    assert marks(hetctl) == []


def test_waiting_for_a_lock_says_so(hetctl: Bench) -> None:
    hetctl.cluster.world.nodes["b"].holder = "ada@laptop"
    ended = hetctl("apply", "--yes", "--lock-wait", "0.2s", "FILE")
    assert ended.code == ExitCode.LOCKED
    assert "waiting for the lock: b: held by ada@laptop" in ended.err


def test_an_unreachable_node_is_5_and_the_rest_is_done(hetctl: Bench) -> None:
    hetctl.cluster.world.unreachable.add("b")
    ended = hetctl("apply", "--yes", "FILE")
    assert ended.code == ExitCode.UNREACHABLE
    assert marks(hetctl) == ["model/gemma"]
    assert "waits for node b" in ended.out


def test_a_gate_is_8(hetctl: Bench) -> None:
    hetctl.cluster.state = DesiredState((), gates=(Gate("vm/x", "a", "reboot a", "sudo reboot"),))
    ended = hetctl("apply", "--yes", "FILE")
    assert ended.code == ExitCode.GATE
    assert "gate vm/x on a: reboot a\n  do: sudo reboot\n" in ended.out


def test_a_saved_plan_needs_no_other_consent_and_runs_once(hetctl: Bench, tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    hetctl("diff", "FILE", "--save", plan)
    assert hetctl("apply", plan).code == 0
    assert len(marks(hetctl)) == 3
    ended = hetctl("apply", plan)
    assert ended.code == ExitCode.PLAN_STALE
    assert "hetctl diff --save" in ended.err


def test_a_saved_plan_is_stale_when_a_node_drifted(hetctl: Bench, tmp_path: Path) -> None:
    hetctl("apply", "--yes", "FILE")
    hetctl.cluster = redeclared(hetctl.cluster, toy("model/gemma", "a", 1), *hetctl.cluster.resources[1:])
    plan = str(tmp_path / "plan.json")
    hetctl("diff", "FILE", "--save", plan)
    hetctl.cluster.world.nodes["b"].store.clear()
    assert hetctl("apply", plan).code == ExitCode.PLAN_STALE


@pytest.mark.parametrize(
    "content", ["{}", "[1]", "not json", '{"formatVersion": 9, "manifest": "", "fingerprint": ""}']
)
def test_json_that_is_no_plan(hetctl: Bench, tmp_path: Path, content: str) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(content)
    assert hetctl("apply", str(plan)).code == ExitCode.USAGE


def test_json(hetctl: Bench) -> None:
    hetctl.cluster.world.failing.add("worker/chat")
    ended = hetctl("apply", "--yes", "-o", "json", "FILE")
    document = json.loads(ended.out)
    jsonschema.validate(document, schema("apply"), cls=jsonschema.Draft202012Validator)
    assert ended.code == document["exitCode"] == ExitCode.APPLIED_IN_PART
    assert [step["result"] for step in document["steps"]] == ["done", "failed", "skipped"]
    assert document["executed"] is True
    assert "3 to add" in ended.err


def test_json_with_nothing_to_do(hetctl: Bench) -> None:
    hetctl("apply", "--yes", "FILE")
    document = json.loads(hetctl("apply", "--yes", "-o", "json", "FILE").out)
    assert (document["executed"], document["exitCode"], document["steps"]) == (False, 0, [])


def test_events(hetctl: Bench, tmp_path: Path) -> None:
    events = tmp_path / "run.jsonl"
    hetctl("apply", "--yes", "--events", str(events), "FILE")
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    for line in lines:
        jsonschema.validate(line, schema("event"), cls=jsonschema.Draft202012Validator)
    assert lines[0]["event"] == "began"
    assert lines[-1]["event"] == "finished"
    assert sum(line["event"] == "ended" for line in lines) == 3
    assert hetctl("apply", "--yes", "--events", str(tmp_path / "no" / "x"), "FILE").code == ExitCode.USAGE


def test_fail_fast(hetctl: Bench) -> None:
    hetctl.cluster = cluster_of(toy("x", "a"), toy("y", "a"))
    hetctl.cluster.world.failing.add("x")
    ended = hetctl("apply", "--yes", "--fail-fast", "FILE")
    assert "not reached  make y" in ended.out
