"""Removing what hetctl made."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent.atomic import sync_directory
from hetctl.agent.failures import Failure

if TYPE_CHECKING:
    from hetctl.agent.context import Context

SHALLOWEST = 2
"""How many components a path must have to be removed: never `/etc` or `/home` as a whole."""


def _checked(context: Context, path: str) -> str:
    context.path(path)  # refuses what is not absolute
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if len(parts) < SHALLOWEST:
        raise Failure(f"{path!r} is too near the root to be removed", kind="refused")
    return context.path("/" + "/".join(parts))


def remove_path(path: str) -> bool:
    """Remove a file, a link or a whole tree, links never followed; return False when there was nothing."""
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (IsADirectoryError, PermissionError):
        if not os.path.isdir(path) or os.path.islink(path):
            raise
        shutil.rmtree(path)
    sync_directory(os.path.dirname(path))
    return True


def remove_empty(path: str) -> bool:
    """Remove a directory if nothing is in it; return whether it went."""
    if os.path.islink(path) or not os.path.isdir(path) or os.listdir(path):
        return False
    os.rmdir(path)
    return True


def remove(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Remove paths, then those of the given directories that are empty, in the given order."""
    paths = [(path, _checked(context, path)) for path in arg.texts(arguments, "paths", [])]
    empty = [(path, _checked(context, path)) for path in arg.texts(arguments, "empty_directories", [])]
    removed = [asked for asked, path in paths if remove_path(path)]
    removed += [asked for asked, path in empty if remove_empty(path)]
    return {"removed": removed}
