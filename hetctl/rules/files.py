"""Are the files there that the placements need from the operator's machine?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hetctl.errors import ManifestInvalid, Problem
from hetctl.manifest.problem_list import arranged
from hetctl.manifest.references import Resolved
from hetctl.manifest.source import KeyPath
from hetctl.manifest.wording import quoted


def check_files(resolved: Resolved) -> None:
    """Look for the model and the source archive of every placement.

    Raises:
        ManifestInvalid: Some cannot be read; carries one problem a file.
    """
    problems = list(_problems(resolved))
    if problems:
        raise ManifestInvalid(arranged(problems, resolved.cluster.source.digests))


def _problems(resolved: Resolved) -> Iterator[Problem]:
    wanted: dict[KeyPath, Path] = {}
    for placement in resolved.placements.values():
        wanted["models", placement.model, "source"] = resolved.models[placement.model]
        wanted["builds", placement.build, "source", "archive"] = resolved.archives[placement.build]
    for where, path in wanted.items():
        if not _is_readable(path):
            yield resolved.cluster.source.problem(
                "E234",
                f"there is no readable file {quoted(path.name)} in {quoted(str(path.parent))}",
                where,
                hint="put it there, or name the one you mean",
            )


def _is_readable(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except OSError:  # a name that is too long, a directory that may not be entered
        return False
