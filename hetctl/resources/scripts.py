"""The scripts that units run: each is a module of the agent that needs no other, put on a node alone."""

from __future__ import annotations

from pathlib import PurePosixPath

from hetctl.transport.bundle import agent_bundle

WAIT = "wait_for_workers"
"""Run by a head before it starts."""

KEEP_ALIVE = "keep_alive"
"""Run by a worker once it listens, and by the watch."""

WATCH = "watch_gang"
"""Runs beside a server."""

SCRIPTS = (WAIT, KEEP_ALIVE, WATCH)


def source(name: str) -> str:
    """Return a script's text."""
    return agent_bundle().sources[f"hetctl.agent.{name}"]


def source_of(path: str) -> str:
    """Return the text of the script that lies at a path made by `layout.script_path`."""
    return source(PurePosixPath(path).name.partition(".")[0])
