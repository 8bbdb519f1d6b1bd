"""What ran before is stopped for good and comes back as it was; real hosts try units and processes."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hetctl.agent.failures import Failure
from tests.agent.conftest import Node

RECORD = "/var/lib/hetctl/clusters/den/replaced/chat.json"
ENGINE = """#!/bin/sh
# Stands for the command line of Docker and Podman: keeps the state of one container in files beside itself.
here=$(dirname "$0")
echo "$@" >> "$here/calls"
case $1 in
inspect)
    [ "$6" = old-llama ] || exit 1
    echo "$(cat "$here/running") \\"$(cat "$here/policy")\\"" ;;
update) echo "${2#--restart=}" > "$here/policy" ;;
stop) echo false > "$here/running" ;;
start) echo true > "$here/running" ;;
esac
"""


@pytest.fixture(params=["docker", "podman"])
def engine(request: pytest.FixtureRequest, node: Node) -> Path:
    """A container that runs and restarts unless it is stopped."""
    program = node.write(f"/usr/bin/{request.param}", ENGINE, 0o755)
    (program.parent / "running").write_text("true\n")
    (program.parent / "policy").write_text("unless-stopped\n")
    return program.parent


def look(node: Node, kind: str, name: str) -> dict[str, object]:
    state: dict[str, object] = node(
        "observe", {"objects": [{"type": "predecessor", "kind": kind, "name": name}]}
    )["states"][0]
    return state


def test_a_container_is_stopped_for_good_and_comes_back(node: Node, engine: Path) -> None:
    assert look(node, "container", "old-llama") == {"exists": True, "running": True, "enabled": True}
    node("retire", {"kind": "container", "name": "old-llama", "record": RECORD})
    assert look(node, "container", "old-llama") == {"exists": True, "running": False, "enabled": False}
    assert node("revive", {"record": RECORD}) == {"revived": True}
    assert look(node, "container", "old-llama") == {"exists": True, "running": True, "enabled": True}
    assert (engine / "policy").read_text() == "unless-stopped\n"
    assert not node.path(RECORD).exists()


def test_what_was_written_down_first_stays(node: Node, engine: Path) -> None:
    for _ in range(2):  # the second time it is stopped already
        node("retire", {"kind": "container", "name": "old-llama", "record": RECORD})
    assert node("revive", {"record": RECORD}) == {"revived": True}
    assert (engine / "running").read_text() == "true\n"


def test_a_container_that_is_not_there(node: Node, engine: Path) -> None:
    assert look(node, "container", "other")["exists"] is False
    node("retire", {"kind": "container", "name": "other", "record": RECORD})
    assert node("revive", {"record": RECORD}) == {"revived": False}
    assert "stop other" not in (engine / "calls").read_text()


def test_nothing_was_retired(node: Node) -> None:
    assert node("revive", {"record": RECORD}) == {"revived": False}


def test_without_an_engine_nothing_is_known_of_containers(node: Node) -> None:
    assert "unknown" in look(node, "container", "old-llama")


@pytest.fixture
def program(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A process of a program that nothing else runs, with a secret in its environment."""
    place = tmp_path / "old-llama"
    shutil.copy(os.path.realpath(sys.executable), place)
    environment = {**os.environ, "API_KEY": "sk-secret"}
    with subprocess.Popen([place, "-c", "import time; time.sleep(600)"], env=environment) as process:
        yield place, process
        process.kill()


def test_a_process_is_written_down_for_root_alone_and_ends(
    program: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    place, process = program
    node = Node(Path("/"))  # processes are those of this machine
    record = tmp_path / "record.json"
    told = node("retire", {"kind": "process", "name": str(place), "record": str(record)})
    assert told == {"exists": True, "running": True, "enabled": False}
    assert process.wait(10) != 0
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    [kept] = json.loads(record.read_text())["processes"]
    assert kept["command"][1:] == ["-c", "import time; time.sleep(600)"]
    assert kept["environment"]["API_KEY"] == "sk-secret"
    assert look(node, "process", str(place))["running"] is False


def test_a_process_of_a_service_is_left_to_systemd(node: Node) -> None:
    from hetctl.agent.predecessor import KINDS  # noqa: PLC0415 - looks into what the operation does

    found = {"processes": [{"pid": os.getpid(), "unit": "old.service"}]}
    with pytest.raises(Failure) as raised:
        KINDS["process"].stop(node.context, "/opt/old", found)
    assert "unit: old.service" in raised.value.fix
