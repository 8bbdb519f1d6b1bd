"""The watch of a server: its command line, its unit, and what it costs to mend it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetctl.agent.watch_gang import read_order
from hetctl.resources import scripts
from hetctl.resources.base import Action, Change, Cost, Desired, Mark, Observed, digest
from hetctl.resources.marks import PROVED, mark_for
from hetctl.resources.process import fingerprint, process_objects
from hetctl.resources.server import ServerKind
from hetctl.resources.watch import may_sleep
from tests.resources.den import Den

NODES = """
nodes:
  atlas: {address: 10.0.0.5}
  bench: {address: 10.0.0.7, cpuWorkers: {left: {threads: 4}, right: {threads: 2}}}
"""
PLACEMENT = """
placements:
  chat:
    model: gemma
    devices: [bench/right, bench/left]
    server: {node: atlas, apiKeys: {me: {env: CHAT_KEY}}}
    ready: {within: 3m}
"""
ALONE = """
placements:
  chat: {model: gemma, devices: [atlas/cpu], server: {listen: [127.0.0.1]}}
"""
SALT = "00" * 16


def server(directory: Path, placement: str = PLACEMENT) -> Desired:
    return Den(directory, NODES + placement).wanted["server/chat"]


def command(desired: Desired) -> list[str]:
    text = desired.spec["watch"]["unit_text"]
    [line] = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    words: list[str] = line.removeprefix("ExecStart=").split()
    return words


def test_the_watch_is_told_what_it_needs(tmp_path: Path) -> None:
    wanted = server(tmp_path)
    words = command(wanted)
    given = read_order(words[3:])
    assert words[:2] == ["/usr/bin/python3", "-I"]
    assert scripts.source_of(words[2]) == scripts.source(scripts.WATCH)
    assert given.unit == wanted.spec["unit"]
    assert given.url == "http://10.0.0.5:8080"
    assert given.workers == ("10.0.0.7:20052", "10.0.0.7:20053")
    assert given.key_file == wanted.spec["secret_files"]["api-keys"]
    assert given.keep_alive in wanted.spec["watch"]["files"]
    assert (given.model, given.task, given.may_sleep) == ("chat", "chat", False)
    assert given.load == 2 * 180


@pytest.mark.parametrize(("batch", "stall"), [(512, 300), (2048, 512), (8192, 2048)])
def test_a_large_batch_may_take_longer_to_show_progress(tmp_path: Path, batch: int, stall: int) -> None:
    assert read_order(command(server(tmp_path, f"{PLACEMENT}    batch: {batch}\n"))[3:]).stall == stall


def test_a_server_without_workers_is_watched_too(tmp_path: Path) -> None:
    wanted = server(tmp_path, ALONE)
    given = read_order(command(wanted)[3:])
    assert (given.workers, given.keep_alive, given.key_file) == ((), "", "")
    assert len(wanted.spec["watch"]["files"]) == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (["--port", "8080"], {"A": "b"}, False),
        (["--sleep-idle-seconds", "600"], {}, True),
        (["--sleep-idle-seconds=600"], {}, True),
        ([], {"LLAMA_ARG_SLEEP_IDLE_SECONDS": "600"}, True),
    ],
)
def test_a_server_that_sleeps_is_known(
    arguments: list[str], environment: Mapping[str, str], *, expected: bool
) -> None:
    assert may_sleep(arguments, environment) is expected


def test_the_units_know_each_other(tmp_path: Path) -> None:
    wanted = server(tmp_path)
    watch = wanted.spec["watch"]
    assert f"Wants=network-online.target {watch['unit']}" in wanted.spec["unit_text"].splitlines()
    lines = watch["unit_text"].splitlines()
    assert f"PartOf={wanted.spec['unit']}" in lines
    assert f"After={wanted.spec['unit']}" in lines
    assert "IPAddressAllow=127.0.0.0/8 ::1 10.0.0.5" in lines
    assert "[Install]" not in lines


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_them(tmp_path: Path) -> None:
    wanted = server(tmp_path)
    for spec in (wanted.spec, wanted.spec["watch"]):
        text = "\n".join(
            line if not line.startswith("Exec") else line.partition("=")[0] + "=/bin/true"
            for line in spec["unit_text"].splitlines()
        )
        (tmp_path / spec["unit"]).write_text(text)
    done = subprocess.run(
        [
            "systemd-analyze",
            "verify",
            "--man=no",
            "--recursive-errors=one",
            str(tmp_path / wanted.spec["unit"]),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
    )
    assert [line for line in done.stderr.splitlines() if "hetctl" in line] == []


def test_a_worker_has_its_listening_socket_probed(tmp_path: Path) -> None:
    worker = Den(tmp_path, NODES + PLACEMENT).wanted["worker/chat@bench.left"]
    [script] = worker.spec["support_files"]
    expected = f"ExecStartPost=-+/usr/bin/python3 -I {script} --listening {worker.spec['port']}"
    assert expected in worker.spec["unit_text"].splitlines()
    assert scripts.source_of(script) == scripts.source(scripts.KEEP_ALIVE)


# -- drift -------------------------------------------------------------------------------------------------


def good(item: Mapping[str, Any], desired: Desired) -> dict[str, Any]:
    """Return the state of an object that is as it was applied."""
    if item["type"] == "file":
        return {"exists": True, "kind": "file", "sha256": "aa"}
    if item["type"] == "listener":
        return {"owners": [{"unit": desired.spec["unit"], "port": item["port"]}]}
    ours = item["name"] == desired.spec["unit"]
    enabled = "enabled" if ours else "static"
    exe = desired.spec["executable"] if ours else "/usr/bin/python3.11"
    return {"load": "loaded", "active": "active", "enabled": enabled, "exe": exe}


def compare(desired: Desired, applied: Desired, **broken: Mapping[str, Any]) -> Change:
    """Compare with a node where everything is as applied but for the unit or file named by its kind."""
    watch = applied.spec.get("watch") or {"unit": "", "unit_path": ""}
    names = {
        "watch": watch["unit"],
        "watch_file": watch["unit_path"],
        "server": applied.spec["unit"],
        "server_file": applied.spec["unit_path"],
    }
    changed = {names[what]: state for what, state in broken.items()}
    objects = process_objects(applied.spec, {})
    states = [
        {**good(item, applied), **changed.get(item.get("name") or item.get("path") or "", {})}
        for item in [{**item, "expect": {"sha256": "aa"}} for item in objects]
    ]
    facts = {"secrets": {name: fingerprint(SALT, value) for name, value in applied.secrets.items()}}
    mark = mark_for(applied, cluster="den", generation=1, state=PROVED, objects=tuple(
        {**item, "expect": {"sha256": "aa"}} if item["type"] == "file" else item for item in objects
    ), facts=facts)  # fmt: skip
    return ServerKind().compare(desired, Observed(mark, (*states, {"salt": SALT})))


@pytest.fixture
def wanted(tmp_path: Path) -> Desired:
    return server(tmp_path)


def test_nothing_to_do_where_all_is_well(wanted: Desired) -> None:
    assert compare(wanted, wanted).action is Action.NONE


@pytest.mark.parametrize(
    ("what", "state", "told"),
    [
        ("watch", {"active": "inactive"}, "is inactive"),
        ("watch", {"load": "masked"}, "is masked"),
        ("watch", {"enabled": "enabled"}, "is enabled"),
        ("watch_file", {"sha256": "bb"}, "was changed"),
        ("watch_file", {"exists": False}, "is missing"),
    ],
)
def test_mending_the_watch_restarts_nothing(
    wanted: Desired, what: str, state: Mapping[str, Any], told: str
) -> None:
    change = compare(wanted, wanted, **{what: state})
    assert (change.action, change.cost) == (Action.UPDATE, Cost.NOTHING)
    [reason] = change.reasons
    assert reason.drift
    assert told in reason.text
    assert "watch" in reason.text


def test_mending_the_server_reloads_the_model_whatever_its_watch_is_like(wanted: Desired) -> None:
    change = compare(wanted, wanted, server={"active": "failed"}, watch={"active": "inactive"})
    assert change.cost is Cost.MODEL_RELOAD
    assert len(change.reasons) == 2


def changed(desired: Desired, **keys: Any) -> Desired:
    return replace(desired, spec={**desired.spec, **keys})


def test_another_way_to_watch_restarts_nothing(wanted: Desired) -> None:
    former = changed(wanted, watch={**wanted.spec["watch"], "unit_text": "of an earlier version"})
    change = compare(wanted, former)
    assert (change.action, change.cost) == (Action.UPDATE, Cost.NOTHING)
    assert [reason.text for reason in change.reasons] == ["rendered differently by this version of hetctl"]


def test_another_server_reloads_the_model(wanted: Desired) -> None:
    assert compare(wanted, changed(wanted, unit_text="of an earlier version")).cost is Cost.MODEL_RELOAD


def test_a_server_that_was_applied_before_there_was_a_watch_gets_one(wanted: Desired) -> None:
    spec = {key: value for key, value in wanted.spec.items() if key != "watch"}
    former = replace(wanted, spec={**spec, "unit_text": "of an earlier version"})
    change = compare(wanted, former)
    assert (change.action, change.cost) == (Action.UPDATE, Cost.MODEL_RELOAD)
    mark = Mark("den", "server/chat", "server", "atlas", former.spec, digest(dict(former.spec)), 1)
    assert ServerKind().remove(mark, Observed(mark)).action is Action.REMOVE
