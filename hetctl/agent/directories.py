"""Directories made on the way to something else: remembered, so that they go with the last of it.

What lies under the state directory goes with that; what was made elsewhere (`paths.models: /data/models`) is
written down before it is made.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from hetctl.agent import atomic
from hetctl.agent.context import STATE
from hetctl.agent.removal import remove_empty, remove_path

if TYPE_CHECKING:
    from hetctl.agent.context import Context

RECORD = f"{STATE}/directories.json"
VOLATILE = "/run"
"""What is made here is gone at the next boot, and some of it is in use until then."""


def make(context: Context, path: str, mode: int = 0o755) -> list[str]:
    """Make a directory and its missing parents; return those that were made, outermost first.

    Arguments:
        context: Of the request.
        path: As this process sees it.
        mode: Of the directory itself; parents get 0755.
    """
    wanted = [place for place in _missing(path) if _ours_to_remember(context.node_path(place))]
    if wanted:
        known = _known(context)
        fresh = [place for place in map(context.node_path, wanted) if place not in known]
        atomic.make_directories(context.path(STATE))
        atomic.write_json(context.path(RECORD), [*known, *fresh])
    return atomic.make_directories(path, mode)


def remove_made(context: Context) -> None:
    """Remove the remembered directories, innermost first, and forget them all.

    One that was for unfinished work goes with all that is in it, any other only if it is empty.
    """
    for place in sorted(_known(context), key=len, reverse=True):
        unfinished = os.path.basename(place).startswith(atomic.TEMPORARY)
        (remove_path if unfinished else remove_empty)(context.path(place))
    remove_path(context.path(RECORD))


def _missing(path: str) -> list[str]:
    missing = []
    while path not in ("", "/") and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    return missing


def _ours_to_remember(place: str) -> bool:
    return not any(place == top or place.startswith(f"{top}/") for top in (STATE, VOLATILE))


def _known(context: Context) -> list[str]:
    try:
        with open(context.path(RECORD), encoding="utf-8") as file:
            return [str(place) for place in json.load(file)]
    except FileNotFoundError:
        return []
