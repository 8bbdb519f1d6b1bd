"""Take the lock of every node, or of none."""

from __future__ import annotations

import getpass
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hetctl.engine.parallel import for_each
from hetctl.engine.sessions import Sessions, opened
from hetctl.errors import HetctlError, LockHeld, TransportError
from hetctl.resources.provider import Target
from hetctl.transport.base import Json

LOCK_DEADLINE = 15.0
"""Seconds one node may take to say whether its lock is free: it never waits for it."""

BACK_OFF = (0.5, 5.0)
"""Seconds between two attempts: random between these, so that two waiting runs don't meet for ever."""

GIT_DEADLINE = 2.0
"""Seconds to find out which commit the manifest is from; it is only for people to read."""


def holder(command: str, cluster: str, manifest: Path) -> dict[str, Json]:
    """Return what others see of this run while it holds the lock: who, when, and from which commit."""
    return {
        "command": command,
        "cluster": cluster,
        "who": f"{_user()}@{os.uname().nodename}",
        "pid": os.getpid(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "manifest": str(manifest.resolve()),
        "commit": _commit(manifest),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's made-up user has no name
        return f"uid {os.getuid()}"


def _commit(manifest: Path) -> str:
    folder = manifest if manifest.is_dir() else manifest.parent
    try:
        told = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=GIT_DEADLINE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""


@contextmanager
def locked(
    targets: Sequence[Target],
    who: Mapping[str, Json],
    *,
    wait: float = 0.0,
    on_wait: Callable[[LockHeld], None] = lambda _: None,
) -> Iterator[Sessions]:
    """Open sessions that may change things and hold the lock of every node reached.

    All nodes are tried at once and none is waited for: when one is held, all are given back, so that two runs
    can't hold half of the nodes each. The lock lives in the agent's process: it is free as soon as that ends,
    however it ends.

    Arguments:
        targets: The nodes.
        who: As `holder` returns.
        wait: Seconds to go on trying; 0 tries once.
        on_wait: Told about the holders before each pause.

    Raises:
        LockHeld: Somebody else holds at least one of them.
    """
    give_up = time.monotonic() + wait
    while True:
        with opened(targets, write=True) as sessions:
            held = take(sessions, who)
            if held is None:
                yield sessions
                return
        left = give_up - time.monotonic()
        if left <= 0:
            raise held
        on_wait(held)
        time.sleep(min(random.uniform(*BACK_OFF), left))  # noqa: S311 - spreads attempts, protects nothing


def take(sessions: Sessions, who: Mapping[str, Json]) -> LockHeld | None:
    """Try the lock of every open session; return who is in the way, None when all are ours.

    A node that can't be spoken to any more moves to the unknown ones.
    """
    outcomes = for_each(
        dict(sessions.open),
        lambda _, session: session.call("lock", {"holder": dict(who)}, deadline=LOCK_DEADLINE),
    )
    held: dict[str, HetctlError] = {}
    for node, error in outcomes.errors.items():
        if isinstance(error, LockHeld):
            held[node] = error
        elif isinstance(error, TransportError):
            sessions.open.pop(node).close()
            sessions.unknown[node] = error
        else:
            raise error
    if not held:
        return None
    return LockHeld(
        "another hetctl is changing these nodes" if len(held) > 1 else "another hetctl is changing this node",
        where=", ".join(held),
        why="; ".join(f"{node}: {error.why or error.what}" for node, error in held.items()),
        fix="wait until it is done: --lock-wait 10m tries again until then",
    )
