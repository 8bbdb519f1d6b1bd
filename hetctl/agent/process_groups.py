"""The process groups this agent started, so that none outlives it."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

_groups: set[int] = set()

starting = False
"""True while a process is being started and is not in the list yet: no moment to be interrupted."""

TERM_SECONDS = 2.0


def kill_all(number: signal.Signals) -> None:
    """Send a signal to every group that is still registered."""
    for group in tuple(_groups):
        _signal(group, number)


def _signal(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def start(argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process as leader of a group of its own and register it; `options` are those of Popen."""
    import subprocess  # noqa: PLC0415 - many sessions start no process, and all start faster without

    global starting  # noqa: PLW0603 - read by the signal handler, which has no other way to know
    starting = True
    try:
        process = subprocess.Popen(argv, start_new_session=True, **options)
        _groups.add(process.pid)
    finally:
        starting = False
    return process


def leave(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the group and forget it."""
    if process.pid not in _groups:
        return
    ended = False
    if _signal(process.pid, signal.SIGTERM):
        limit = time.monotonic() + TERM_SECONDS
        while not ended and time.monotonic() < limit:
            process.poll()  # reaps the leader, which otherwise keeps the group alive
            ended = not _signal(process.pid, 0)
            if not ended:
                time.sleep(0.01)
    if not ended:
        _signal(process.pid, signal.SIGKILL)
    process.wait()
    _groups.discard(process.pid)
