"""Giving a finished tree its name."""

from __future__ import annotations

import os

from hetctl.agent.atomic import sync_directory, temporary_beside
from hetctl.agent.removal import remove_path


def put_in_place(unfinished: str, path: str) -> None:
    """Give a finished tree its name. A former tree of that name is moved aside first and removed last."""
    aside = None
    if os.path.lexists(path):
        aside = temporary_beside(path)
        os.rename(path, aside)
    os.rename(unfinished, path)
    sync_directory(os.path.dirname(path))
    if aside is not None:
        remove_path(aside)
