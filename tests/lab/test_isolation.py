from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import isolation
from tests.lab.fixtures import LabFactory
from tests.lab.process import wait_until

LAB = [sys.executable, "-m", "tests.lab"]


@pytest.fixture(autouse=True)
def only_as_root(lab: LabFactory) -> None:
    """Skip, or fail, as the other tests of the lab do."""


def mounts(process: str = "self") -> set[tuple[str, str]]:
    """Return the mounts a process sees, as (device, place): a device is a file system of its own."""
    lines = (Path("/proc") / process / "mountinfo").read_text().splitlines()
    return {(line.split()[2], line.split()[4]) for line in lines}


def network_namespace(process: str) -> str:
    return str((Path("/proc") / process / "ns" / "net").readlink())


def network_namespaces() -> set[str]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add(network_namespace(process.name))
        except OSError:
            continue  # ended in between
    return found


def children() -> dict[int, list[int]]:
    """Return the ids of the living children of each process."""
    found: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # ended in between
        if state != "Z":
            found.setdefault(int(parent), []).append(int(status.parent.name))
    return found


def descendants(process: int) -> set[int]:
    tree = children()
    found: set[int] = set()
    wanted = [process]
    while wanted:
        below = tree.get(wanted.pop(), [])
        found.update(below)
        wanted += below
    return found


def alive(processes: set[int]) -> set[int]:
    return processes & {process for siblings in children().values() for process in siblings}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_nothing_outlives_a_run_that_is_killed(number: signal.Signals) -> None:
    groups_before = set(isolation.CGROUPS.glob("hetctl-lab-*"))
    script = "python -m tests.lab up -n 2 && exec sleep 600"
    with subprocess.Popen([*LAB, "run", "bash", "-c", script], stdout=subprocess.PIPE) as wrapper:
        try:
            assert wrapper.stdout
            assert b"2 hosts are up" in wrapper.stdout.readline()
            processes = descendants(wrapper.pid)
            # other tests may have hosts up at the same time: what counts is what this run made
            made = set().union(*(mounts(str(process)) for process in processes)) - mounts()
            namespaces = {network_namespace(str(process)) for process in processes}
            namespaces -= {network_namespace("self"), network_namespace(str(wrapper.pid))}
        finally:
            wrapper.send_signal(number)
    assert len(processes) > 10  # two hosts with their services
    wait_until(lambda: not alive(processes), "every process of the run is gone", seconds=10)
    assert len(namespaces) == 3  # the switch and two hosts
    assert namespaces.isdisjoint(network_namespaces())
    assert made
    assert made.isdisjoint(mounts())
    # Empty cgroups are all that stays, until the next run.
    subprocess.run([*LAB, "run", "true"], check=True)
    assert set(isolation.CGROUPS.glob("hetctl-lab-*")) == groups_before


def test_the_command_line_does_what_it_says() -> None:
    script = """
        set -e
        lab() { python -m tests.lab "$@"; }
        lab up --names left,right --disk 256m
        lab exec left hostname
        lab kill left
        lab status
        lab start left
        lab cut right
        lab exec left ping -c1 -W1 right && exit 1
        lab heal right
        lab delay right 10
        lab exec left ping -q -c1 -W1 right | grep -c '1 received'
        lab delay right 0
        lab down
        lab status
        lab kill left
    """
    done = subprocess.run([*LAB, "run", "bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[1:4] == ["left", "left 10.77.0.11 down", "right 10.77.0.12 up"]
    assert done.stdout.splitlines()[-1] == "1"
    assert done.stderr.splitlines()[-1] == "lab: there is no host left"
    assert done.returncode == 1


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)])
def test_the_command_s_exit_status_comes_through(script: str, status: int) -> None:
    assert subprocess.run([*LAB, "run", "sh", "-c", script], check=False).returncode == status


def test_orphans_are_reaped() -> None:
    script = "(sleep 0 & exec sleep 0.1) & wait; sleep 0.3; ! grep -l '^State:.Z' /proc/[0-9]*/status"
    assert subprocess.run([*LAB, "run", "bash", "-c", script], check=False).returncode == 0


def test_no_host_is_brought_up_in_a_network_that_is_not_the_lab_s() -> None:
    argv = ["unshare", "--net", *LAB, "up"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "lab: hosts are only brought up inside `python -m tests.lab run COMMAND`\n"


def test_the_kernel_s_inotify_limit_is_put_back() -> None:
    limit = Path("/proc/sys/fs/inotify/max_user_instances")
    before = limit.read_text()
    code = "from tests.lab.isolation import allow_inotify_instances as allow; allow(4000)"
    check = f'python -c "{code}" && cat {limit}'
    done = subprocess.run([*LAB, "run", "bash", "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "4000\n"
    assert limit.read_text() == before


def test_this_session_is_isolated() -> None:
    assert isolation.isolated()
    assert os.getpid() != 1
