"""What systemctl says, and what it is told; `test_on_hosts.py` has the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hetctl.agent.failures import Failure
from hetctl.agent.services import describe, parse_show

if TYPE_CHECKING:
    from tests.agent.conftest import Node

# systemctl 252 show, Debian 12: a service that runs, one that is not there
SHOWN = """MainPID=4242
Result=success
NRestarts=3
ExecMainStartTimestampMonotonic=123456789
ControlGroup=/system.slice/ssh.service
Id=ssh.service
LoadState=loaded
ActiveState=active
SubState=running
FragmentPath=/lib/systemd/system/ssh.service
DropInPaths=/etc/systemd/system/ssh.service.d/a.conf /etc/systemd/system/ssh.service.d/b.conf
UnitFileState=enabled
InvocationID=0c1d6b1f5bff4d5a9f1e2d3c4b5a6978
NeedDaemonReload=yes

MainPID=0
Result=success
NRestarts=0
ExecMainStartTimestampMonotonic=0
ControlGroup=
Id=none.service
LoadState=not-found
ActiveState=inactive
SubState=dead
FragmentPath=
DropInPaths=
UnitFileState=
InvocationID=
NeedDaemonReload=no
"""


def test_units_are_described_in_order(node: Node) -> None:
    node.path("/proc/4242").mkdir(parents=True)
    node.path("/proc/4242/exe").symlink_to("/usr/sbin/sshd")
    running, missing = (describe(node.context, shown) for shown in parse_show(SHOWN))
    assert running == {
        "load": "loaded",
        "active": "active",
        "sub": "running",
        "enabled": "enabled",
        "fragment": "/lib/systemd/system/ssh.service",
        "drop_ins": ["/etc/systemd/system/ssh.service.d/a.conf", "/etc/systemd/system/ssh.service.d/b.conf"],
        "need_reload": True,
        "main_pid": 4242,
        "exe": "/usr/sbin/sshd",
        "started": 123456789,
        "invocation": "0c1d6b1f5bff4d5a9f1e2d3c4b5a6978",
        "result": "success",
        "restarts": 3,
        "control_group": "/system.slice/ssh.service",
    }
    assert (missing["load"], missing["active"], missing["exe"], missing["drop_ins"]) == (
        "not-found",
        "inactive",
        None,
        [],
    )


def stand_in(node: Node, text: str) -> None:
    node.write("/usr/bin/systemctl", f"#!/bin/sh\n{text}\n", 0o755)


def test_all_units_are_asked_for_at_once(node: Node) -> None:
    node.write("/shown", SHOWN)
    stand_in(node, f'echo "$@" >> {node.root}/calls; cat {node.root}/shown')
    objects = [
        {"type": "unit", "name": "ssh.service"},
        {"type": "file", "path": "/shown"},
        {"type": "unit", "name": "none.service"},
    ]
    states = node("observe", {"objects": objects})["states"]
    assert [state.get("load", state.get("kind")) for state in states] == ["loaded", "file", "not-found"]
    (call,) = node.path("/calls").read_text().splitlines()
    assert call.startswith("show --property=Id,")
    assert call.endswith("-- ssh.service none.service")


@pytest.mark.parametrize("text", ["echo no bus >&2; exit 1", "echo; exit 0"])
def test_a_silent_systemd_is_unknown_and_not_absent(node: Node, text: str) -> None:
    stand_in(node, text)
    (state,) = node("observe", {"objects": [{"type": "unit", "name": "ssh.service"}]})["states"]
    assert set(state) == {"unknown"}


def test_a_node_without_systemd_is_unknown_too(node: Node) -> None:
    (state,) = node("observe", {"objects": [{"type": "unit", "name": "ssh.service"}]})["states"]
    assert "systemctl" in state["unknown"]


@pytest.mark.parametrize(
    "name", ["", "-H", "--help", "a*.service", "a b.service", "noend", "a/b.service", "a\n.service"]
)
def test_names_that_are_none_are_refused(node: Node, name: str) -> None:
    stand_in(node, "exit 0")
    for operation, arguments in (
        ("observe", {"objects": [{"type": "unit", "name": name}]}),
        ("systemd", {"action": "stop", "units": [name]}),
        ("journal", {"unit": name}),
    ):
        with pytest.raises(Failure):
            node(operation, arguments)


def test_verbs_are_passed_on_with_their_outcome(node: Node) -> None:
    stand_in(node, f'echo "$@" >> {node.root}/calls; echo Job failed >&2; exit 5')
    assert node("systemd", {"action": "start", "units": ["a.service", "b.service"]}) == {
        "exit": 5,
        "stderr": "Job failed\n",
    }
    node("systemd", {"action": "daemon-reload", "units": []})
    assert node("systemd", {"action": "stop", "units": []}) == {"exit": 0, "stderr": ""}
    assert node.path("/calls").read_text().splitlines() == ["start -- a.service b.service", "daemon-reload"]
    with pytest.raises(Failure, match="not an action"):
        node("systemd", {"action": "edit", "units": ["a.service"]})
