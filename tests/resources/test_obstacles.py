"""What is in the way and not ours blocks, and is named with the command that clears it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hetctl.resources.base import Action, Change, Observed
from hetctl.resources.marks import PROVED, mark_for
from hetctl.resources.registry import KINDS
from hetctl.resources.unit import MANAGED_NOTE
from tests.resources.den import Den

MANIFEST = """
nodes:
  atlas: {address: 10.0.0.5}
  bench: {address: 10.0.0.7, cpuWorkers: {left: {threads: 4}}}
placements:
  chat: {model: gemma, devices: [bench/left], server: {node: atlas, allowFrom: [10.9.0.0/16]}}
"""
ADDRESSES = ["worker/chat@bench.left", "server/chat", "firewall/chat@bench"]


def compare(folder: Path, address: str, states: Mapping[str, Any], *, marked: bool = False) -> Change:
    """Return the change of a resource of which the node has objects of some types in a certain state."""
    item = Den(folder, MANIFEST).wanted[address]
    kind = KINDS[item.kind]
    objects = kind.objects(item)
    mark = mark_for(item, cluster="den", generation=1, state=PROVED, objects=tuple(objects))
    found = tuple(
        dict(states[str(one["type"])])
        if str(one["type"]) in states and one.get("path", item.spec["unit_path"]) == item.spec["unit_path"]
        else {"exists": False}
        for one in objects
    )
    return kind.compare(item, Observed(mark if marked else None, found))


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_unit_of_our_name_that_somebody_else_wrote(tmp_path: Path, address: str) -> None:
    change = compare(tmp_path, address, {"file": {"exists": True, "kind": "file", "first_line": "[Unit]"}})
    assert change.action is Action.BLOCKED
    assert "hetctl did not write it" in change.reasons[0].text
    assert change.fix.startswith("mv ")
    assert "systemctl daemon-reload" in change.fix


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_unit_of_ours_whose_mark_was_lost_is_made_again(tmp_path: Path, address: str) -> None:
    ours = {"exists": True, "kind": "file", "first_line": MANAGED_NOTE}
    assert compare(tmp_path, address, {"file": ours}).action is Action.CREATE


@pytest.mark.parametrize("address", ADDRESSES)
def test_only_unmarked_units_are_asked_who_wrote_them(tmp_path: Path, address: str) -> None:
    item = Den(tmp_path, MANIFEST).wanted[address]
    asked = [one for one in KINDS[item.kind].objects(item) if one.get("first_line")]
    assert [one["path"] for one in asked] == [item.spec["unit_path"]]


OWNER = {"address": "0.0.0.0", "pid": 7, "exe": "/usr/bin/old", "unit": "old.service"}


@pytest.mark.parametrize("marked", [False, True])
def test_a_stranger_on_the_declared_port(tmp_path: Path, *, marked: bool) -> None:
    listener = {"owners": [{**OWNER, "port": 8080}]}
    change = compare(tmp_path, "server/chat", {"listener": listener}, marked=marked)
    assert (change.action, change.fix) == (Action.BLOCKED, "systemctl disable --now old.service")


def test_a_process_without_a_unit_is_named_by_its_number(tmp_path: Path) -> None:
    listener = {"owners": [{**OWNER, "port": 8080, "unit": "session-3.scope"}]}
    assert compare(tmp_path, "server/chat", {"listener": listener}).fix == "kill 7"


def test_a_process_of_ours_is_no_stranger(tmp_path: Path) -> None:
    listener = {"owners": [{**OWNER, "port": 8080, "unit": "hetctl:den:code:server.service"}]}
    assert compare(tmp_path, "server/chat", {"listener": listener}).action is Action.CREATE
    other = {"owners": [{**OWNER, "port": 8080, "unit": "hetctl:lair:chat:server.service"}]}
    assert compare(tmp_path, "server/chat", {"listener": other}).action is Action.BLOCKED


@pytest.mark.parametrize(
    ("replaces", "owner"),
    [
        ("unit: old.service", {}),
        ("process: /usr/bin/old", {"unit": "session-3.scope"}),
        ("container: old", {"exe": "/usr/bin/docker-proxy", "unit": "docker.service"}),
        ("container: old", {"exe": "/app/llama-server", "unit": "docker-0c1d.scope"}),
    ],
)
def test_what_is_replaced_is_no_obstacle(tmp_path: Path, replaces: str, owner: Mapping[str, Any]) -> None:
    manifest = MANIFEST.replace("{model: gemma", f"{{replaces: {{{replaces}}}, model: gemma")
    item = Den(tmp_path, manifest).wanted["server/chat"]
    states = ({"owners": [{**OWNER, "port": 8080, **owner}]},)
    assert KINDS["server"].compare(item, Observed(None, states)).action is Action.CREATE
    stranger = ({"owners": [{**OWNER, "port": 8080, "exe": "/bin/nc", "unit": "nc.service"}]},)
    assert KINDS["server"].compare(item, Observed(None, stranger)).action is Action.BLOCKED
