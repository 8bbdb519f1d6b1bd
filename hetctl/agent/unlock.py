"""Ending those who hold the node's lock and do not work any more.

A lock is a flock: it is free as soon as the last process that holds it ends, so it is freed by ending them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent.failures import Failure
from hetctl.agent.locks import LOCK, holder

if TYPE_CHECKING:
    from hetctl.agent.context import Context

ABANDONED_SECONDS = 45.0
"""An agent that hears nothing for 30 s ends by itself and notes every 5 s when it last heard something."""

GRACE_SECONDS = 5.0
END_SECONDS = 10.0


def unlock(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """End the processes that hold the lock.

    Args:
        context: Of the session.
        arguments: `pid`: whom the operator saw holding it; `force`: end it even though its operator is there.

    Returns:
        `ended`: the processes that were ended; empty when nobody held it any more.

    Raises:
        Failure: Somebody else holds it now, its holder still hears from its operator, or it cannot be ended.
    """
    found = holder(context)
    if found is None:
        return {"ended": []}
    if found["holder"].get("pid") != arguments.get("pid"):
        raise Failure("somebody else holds the lock now", kind="refused", fix="run hetctl unlock again")
    if not arg.flag(arguments, "force") and found["silent"] < ABANDONED_SECONDS:
        raise Failure(
            "whoever holds the lock is still there",
            kind="refused",
            why=f"it heard from its operator {found['silent']:.0f} s ago",
            fix="wait, end it where it was started, or use --force",
        )
    ended = holders(context)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in holders(context):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process["pid"], number)
                os.kill(process["pid"], signal.SIGCONT)
        seconds = GRACE_SECONDS if number == signal.SIGTERM else END_SECONDS
        if _wait_until_free(context, seconds):
            return {"ended": ended}
    raise Failure("the lock is still held", why=f"process {found['holder'].get('pid')} does not end")


def holders(context: Context) -> list[dict[str, Any]]:
    """Return the processes that have the lock's file open, this one left out."""
    lock = os.stat(context.path(LOCK))
    others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    return [
        {"pid": int(name), "command": _command(name)}
        for name in others
        if _has_open(f"/proc/{name}/fd", lock)
    ]


def _has_open(directory: str, lock: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(directory):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"{directory}/{descriptor}"), lock):
                    return True
    return False


def _command(pid: str) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
        return file.read().strip()
    return ""


def _wait_until_free(context: Context, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while holder(context) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
