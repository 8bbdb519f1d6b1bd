from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hetctl.errors import ExitCode
from hetctl.resources.provider import Access, DesiredState, Gate
from hetctl.rules.finding import Finding, Severity
from tests.cli.commands import Bench, bench
from tests.engine.toy import cluster_of, redeclared, toy

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "schemas" / "plan.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def hetctl(tmp_path: Path) -> Bench:
    cluster = cluster_of(
        toy("model/gemma", "a"),
        toy("worker/chat", "b", gang="chat"),
        toy("server/chat", "a", gang="chat", depends_on=("worker/chat", "model/gemma")),
    )
    return bench(cluster, tmp_path)


def test_changes_are_shown_with_the_next_command(hetctl: Bench) -> None:
    ended = hetctl("diff", "FILE")
    assert ended.code == ExitCode.CHANGES_PENDING
    assert ended.out.startswith("chat  ~")
    assert "\n3 to add, 0 to change, 0 to remove; 2 nodes read, 0 unknown.   Next: " in ended.out
    assert ended.out.endswith(f"   Next: hetctl apply {hetctl.manifest}\n")
    assert ended.err == ""
    assert not any(node.marks for node in hetctl.cluster.world.nodes.values())


def test_no_changes_is_0(hetctl: Bench) -> None:
    assert hetctl("apply", "--yes", "FILE").code == 0
    ended = hetctl("diff", "FILE")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "No changes: toybox is as declared; 2 nodes read, 0 unknown.\n"


def test_removals_name_their_consent(hetctl: Bench) -> None:
    hetctl("apply", "--yes", "FILE")
    hetctl.cluster = redeclared(hetctl.cluster, toy("model/gemma", "a"), nodes=("a", "b"))
    ended = hetctl("diff", "FILE")
    assert ended.code == ExitCode.CHANGES_PENDING
    assert f"Next: hetctl apply --prune {hetctl.manifest}" in ended.out


def test_an_unreachable_node_is_named_and_5(hetctl: Bench) -> None:
    hetctl("apply", "--yes", "FILE")
    hetctl.cluster.world.unreachable.add("b")
    ended = hetctl("diff", "FILE")
    assert ended.code == ExitCode.UNREACHABLE
    assert ended.out.startswith("b  ? unknown: no connection to b: timed out\n")
    assert hetctl("diff", "FILE", "--allow-unreachable", "b").code == 0
    assert hetctl("diff", "FILE", "--allow-unreachable", "a").code == ExitCode.UNREACHABLE


def test_what_apply_would_refuse_is_9(hetctl: Bench) -> None:
    hetctl.cluster.state = DesiredState(
        (),
        findings=(Finding("NO_DRIVER", Severity.ERROR, "a/fast", "no driver"),),
        gates=(Gate("vm/x", "a", "reboot"),),
    )
    ended = hetctl("diff", "FILE")
    assert ended.code == ExitCode.REFUSED
    assert "error NO_DRIVER a/fast: no driver" in ended.out
    assert "gate vm/x on a: reboot" in ended.out
    assert "Next:" not in ended.out


def test_json(hetctl: Bench) -> None:
    ended = hetctl("diff", "FILE", "-o", "json")
    assert (ended.code, ended.err) == (ExitCode.CHANGES_PENDING, "")
    document = json.loads(ended.out)
    jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert document["manifest"] == str(hetctl.manifest)
    assert document["counts"]["add"] == 3


def test_save_keeps_the_plan_and_shows_it(hetctl: Bench, tmp_path: Path) -> None:
    kept = tmp_path / "plan.json"
    ended = hetctl("diff", "FILE", "--save", str(kept))
    assert ended.code == ExitCode.CHANGES_PENDING
    assert f"Next: hetctl apply {kept}" in ended.out
    jsonschema.validate(json.loads(kept.read_text()), SCHEMA, cls=jsonschema.Draft202012Validator)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_manifest_defaults_to_the_one_here(hetctl: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hetctl.manifest.parent)
    assert "Next: hetctl apply cluster.yaml\n" in hetctl("diff").out


def test_host_keys_are_asked_for_on_a_terminal_only(hetctl: Bench) -> None:
    hetctl("diff", "FILE")
    assert hetctl.access[-1] == Access()
    hetctl("diff", "FILE", "--accept-new-host-keys")
    assert hetctl.access[-1] == Access(accept_new_host_keys=True)
    hetctl("diff", "FILE", interactive=True, typed="yes\nno\n")
    confirm = hetctl.access[-1].confirm_host_key
    assert confirm is not None
    assert [confirm("a", "ED25519 SHA256:abc"), confirm("b", "ED25519 SHA256:def")] == [True, False]


def test_a_node_that_may_be_down_has_to_be_one(tmp_path: Path) -> None:
    hetctl = bench(cluster_of(toy("member/atlas", "atlas")), tmp_path)
    for command in (("diff",), ("apply", "--yes"), ("status",), ("destroy", "--confirm", "toybox")):
        ended = hetctl(*command, "--allow-unreachable", "atlsa", "FILE")
        assert ended.code == ExitCode.USAGE, command
        assert "did you mean 'atlas'?" in ended.err
