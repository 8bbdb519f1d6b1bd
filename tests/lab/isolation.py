"""Namespaces of its own for a whole test run: no packet leaves the machine and nothing outlives the run.

`run_isolated` starts a command in new network, mount and pid namespaces. The lab refuses to work elsewhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.process import LabError, run, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

ROOT = Path("/run/hetctl-lab")
"""Everything a running lab holds; a tmpfs that exists only in the run's mount namespace."""

CGROUPS = ROOT / "cgroup"
_GROUP_PREFIX = "hetctl-lab-"
_PROOF = ROOT / "network-namespace"
_USUAL_INOTIFY = 1024
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")


def own_group() -> Path:
    """Return the cgroup of this run, above those of its hosts: cgroups are the one thing namespaces share."""
    return CGROUPS / f"{_GROUP_PREFIX}{_network_namespace()}"


def isolated() -> bool:
    """Tell whether this process runs in namespaces that `run_isolated` made."""
    return _PROOF.is_file() and _PROOF.read_text() == _network_namespace()


def require_isolation() -> None:
    """Raise LabError unless isolated."""
    if not isolated():
        raise LabError("hosts are only brought up inside `python -m tests.lab run COMMAND`")


def run_isolated(command: Sequence[str]) -> int:
    """Run `command` isolated and return its exit status, 128 + N when signal N ended it.

    Whatever way this process ends, SIGKILL included, everything that the command started ends with it.
    """
    if os.geteuid():
        raise LabError("the lab needs root")
    ROOT.mkdir(parents=True, exist_ok=True)  # stays: removing it would detach the mount of another run
    Path("/run/netns").mkdir(exist_ok=True)
    namespaces = [
        "--net",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]
    inner = [sys.executable, "-m", "tests.lab", "_inside", *command]
    child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", *namespaces, "--", *inner])

    received: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        os.kill(child.pid, signal.SIGKILL)  # unshare itself holds the milder signals back

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command hears Ctrl-C itself and decides
    status = child.wait()
    return 128 + received[0] if received else status


def inside(command: Sequence[str]) -> int:
    """Be the first process of the new namespaces: prepare them, run `command`, reap, and leave nothing."""
    run("mount", "-t", "tmpfs", "-o", "mode=755,size=256m", "hetctl-lab", ROOT)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "hetctl-lab-netns", "/run/netns")
    run("ip", "link", "set", "lo", "up")
    CGROUPS.mkdir()
    run("mount", "-t", "cgroup2", "cgroup2", CGROUPS)
    _PROOF.write_text(_network_namespace())
    inotify = _INOTIFY.read_text()
    # enough from the start: the end of a run inside this one puts back what it found
    allow_inotify_instances(_USUAL_INOTIFY)
    with _held_group():
        child = subprocess.Popen(list(command))
        status = _reap_until_end_of(child.pid)
        kill_group(own_group())
    if int(inotify) >= _USUAL_INOTIFY or not _other_runs():
        _INOTIFY.write_text(inotify)
    return status


def _other_runs() -> bool:
    return any(group_processes(group) for group in CGROUPS.glob(f"{_GROUP_PREFIX}*") if group != own_group())


def allow_inotify_instances(count: int) -> None:
    """Raise the kernel's limit of inotify instances to at least `count`; the end of the run puts it back."""
    if int(_INOTIFY.read_text()) < count:
        _INOTIFY.write_text(str(count))


def kill_group(group: Path) -> None:
    """End every process in `group` and below at once, wait until they are gone and remove the groups."""
    if not group.is_dir():
        return
    (group / "cgroup.kill").write_text("1")
    wait_until(lambda: not group_processes(group), f"processes in {group.name} are gone")
    _remove_groups(group)


def group_processes(group: Path) -> list[int]:
    """Return the ids, as seen from here, of the processes in `group` and below."""
    found = []
    for directory, _, _ in os.walk(group):
        with contextlib.suppress(OSError):  # a group that went away in between holds none
            found += [int(line) for line in (Path(directory) / "cgroup.procs").read_text().split()]
    return found


def _remove_groups(group: Path) -> None:
    for directory, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(
            OSError
        ):  # not empty, or removed by the kernel's own order: tried again by the next run
            Path(directory).rmdir()


@contextlib.contextmanager
def _held_group() -> Iterator[None]:
    """Make this run's cgroup and hold a lock on it; remove the empty ones of runs that were killed."""
    for stale in CGROUPS.glob(f"{_GROUP_PREFIX}*"):
        with contextlib.suppress(OSError):  # locked: its run is alive
            descriptor = os.open(stale, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_groups(stale)
            finally:
                os.close(descriptor)
    own = own_group()
    while True:
        own.mkdir(exist_ok=True)
        descriptor = os.open(own, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if own.is_dir() and os.fstat(descriptor).st_ino == own.stat().st_ino:
            break
        os.close(descriptor)  # another run took it for a stale one just before the lock
    try:
        yield
    finally:
        os.close(descriptor)


def _reap_until_end_of(command: int) -> int:
    """Wait for every child that ends, orphans included, until `command` does; return its exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        pid, status = os.wait()
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _network_namespace() -> str:
    return str(Path("/proc/self/ns/net").stat().st_ino)
