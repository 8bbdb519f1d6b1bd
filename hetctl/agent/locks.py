"""The node's lock: a flock that the kernel frees when the last process holding it is gone.

Children inherit the descriptor: a node stays locked while something started under the lock still runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent.atomic import make_directories, write_all
from hetctl.agent.context import STATE
from hetctl.agent.failures import Failure

if TYPE_CHECKING:
    from hetctl.agent.context import Context

LOCK = "/run/hetctl/lock"


def _read_holder(descriptor: int) -> dict[str, Any]:
    try:
        holder = json.loads(os.pread(descriptor, 1 << 16, 0))
    except ValueError:
        return {}  # the other one has only just taken it
    return holder if isinstance(holder, dict) else {}


def lock(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Take the node's lock for this process, or fail at once and say who holds it."""
    holder = arg.table(arguments, "holder")
    if context.lock_descriptor is not None:
        return {"held": True}
    path = context.path(LOCK)
    while True:
        make_directories(os.path.dirname(path))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            found = _read_holder(descriptor)
            os.close(descriptor)
            raise Failure(
                "the node is locked",
                kind="locked",
                fix="wait for the other apply to end, or use --lock-wait",
                details={"holder": found},
            ) from error
        if _still_there(path, descriptor):
            break
        os.close(descriptor)  # its former holder removed the file in between
    os.ftruncate(descriptor, 0)
    write_all(descriptor, json.dumps({**holder, "pid": os.getpid()}).encode())
    context.lock_descriptor = descriptor
    return {"held": True}


def _still_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def holder(context: Context) -> dict[str, Any] | None:
    """Return who holds the lock without touching it, None when nobody does.

    `silent` is for how many seconds the holder has not heard from its operator.
    """
    try:
        descriptor = os.open(context.path(LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if context.lock_descriptor is None and not _is_locked(os.fstat(descriptor)):
            return None
        silent = max(0.0, time.time() - os.fstat(descriptor).st_mtime)
        return {"holder": _read_holder(descriptor), "silent": silent}
    finally:
        os.close(descriptor)


def _is_locked(status: os.stat_result) -> bool:
    """Look in the kernel's list of locks: to try a flock, even a shared one, could make another's fail."""
    inode = f":{status.st_ino}"
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    with open("/proc/locks") as file:
        for line in file:
            fields = line.split()
            if "FLOCK" in fields and any(field == device + inode for field in fields):
                return True
    return False


def heard(context: Context, seconds_ago: float) -> None:
    """Note at the lock this process holds when it last heard from its operator."""
    descriptor = context.lock_descriptor
    if descriptor is not None:
        when = time.time() - seconds_ago
        os.utime(descriptor, (when, when))


def leave(context: Context) -> None:
    """Release the lock; its file goes too when nothing of hetctl is left on the node."""
    if context.lock_descriptor is None:
        return
    path = context.path(LOCK)
    descriptor, context.lock_descriptor = context.lock_descriptor, None
    if not os.path.isdir(context.path(STATE)) and _still_there(path, descriptor):
        os.unlink(path)
        if not os.listdir(os.path.dirname(path)):
            os.rmdir(os.path.dirname(path))
    os.close(descriptor)
