"""Finds the files of a manifest and turns their bytes into text, or says why they are no manifest."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hetctl.errors import Position, Problem
from hetctl.manifest.tree import File

SIZE_LIMIT = 256 * 1024
"""Most bytes of all files together. The parser reads about 80 KB/s; a hundred nodes take about 100 KB."""

FILE_LIMIT = 1000
"""Most files of one manifest."""

STDIN = "-"
STDIN_NAME = "<stdin>"

_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)
"""Control characters, line ends that only some programs see, and marks that reorder what a reader sees."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read.

    Arguments:
        files: Each readable file and its text.
        problems: What could not be read.
    """

    files: tuple[tuple[File, str], ...]
    problems: tuple[Problem, ...]


def read(paths: Sequence[Path | str]) -> Reading:
    """Read what `paths` name: files, directories (their *.yaml and *.yml, sorted), `-` for standard input."""
    files: list[tuple[File, str]] = []
    problems: list[Problem] = []
    left = SIZE_LIMIT
    for name in _expand(paths, problems):
        content = _bytes(name, left, problems)
        if content is None:
            continue
        left -= len(content)
        made = decode(name, content)
        if isinstance(made, Problem):
            problems.append(made)
        else:
            files.append(made)
    return Reading(tuple(files), tuple(problems))


def decode(name: str, content: bytes) -> tuple[File, str] | Problem:
    """Turn the bytes of the file `name` into its text, or say why that is impossible.

    A UTF-8 byte order mark at the start is skipped, as YAML allows.
    """
    shown, directory = (STDIN_NAME, Path()) if name == STDIN else (name, Path(name).parent)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Problem("E003", "the file is UTF-16, not UTF-8", Position(shown), hint="save it as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = (
            len(content[content.rfind(b"\n", 0, error.start) + 1 : error.start].decode(errors="replace")) + 1
        )
        return Problem(
            "E003",
            f"the file is not UTF-8: byte 0x{content[error.start]:02x}",
            Position(shown, line, column),
            hint="save it as UTF-8",
        )
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    file = File(shown, directory, tuple(text.split("\n")), hashlib.sha256(content).hexdigest())
    if bad := _FORBIDDEN.search(text):
        return _forbidden(file, text, bad.start())
    return file, text


def _forbidden(file: File, text: str, at: int) -> Problem:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    character = text[at]
    name = unicodedata.name(character, "control character")
    return Problem(
        "E003",
        f"the file holds a character that does not belong in text: U+{ord(character):04X} ({name.lower()})",
        Position(file.name, line, column),
        hint="remove it; inside double quotes it can be written as an escape",
    )


def _expand(paths: Sequence[Path | str], problems: list[Problem]) -> list[str]:
    """Return the names of all files, directories replaced by what they hold, each file once."""
    names: dict[str, str] = {}
    for path in map(str, paths):
        if path == STDIN or not os.path.isdir(path):  # noqa: PTH112 - pathlib would drop the user's leading ./
            names.setdefault(path if path == STDIN else os.path.realpath(path), path)
            continue
        try:
            held = sorted(entry.name for entry in Path(path).iterdir() if entry.suffix in {".yaml", ".yml"})
        except OSError as error:
            problems.append(_unreadable(path, error))
            continue
        if not held:
            problems.append(
                Problem(
                    "E001",
                    "the directory holds no *.yaml and no *.yml file",
                    Position(path),
                    hint="name the files",
                )
            )
        for name in held:
            joined = os.path.join(path, name)  # noqa: PTH118 - as above
            names.setdefault(os.path.realpath(joined), joined)
    if len(names) > FILE_LIMIT:
        problems.append(
            Problem(
                "E002",
                f"{len(names)} files are more than a manifest may have ({FILE_LIMIT})",
                Position(str(paths[0])),
            )
        )
        return []
    return list(names.values())


def _bytes(name: str, limit: int, problems: list[Problem]) -> bytes | None:
    """Return the content of a file, or None after adding a problem."""
    shown = STDIN_NAME if name == STDIN else name
    try:
        if name == STDIN:
            content = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(limit + 1)
    except OSError as error:
        problems.append(_unreadable(shown, error))
        return None
    if len(content) > limit:
        problems.append(
            Problem(
                "E002",
                f"the manifest is larger than {SIZE_LIMIT // 1024} KiB, all files together",
                Position(shown),
                hint="is this a manifest? models, archives and other large things are named in it, not held",
            )
        )
        return None
    return content


def _unreadable(name: str, error: OSError) -> Problem:
    return Problem(
        "E001", f"cannot read it: {error.strerror or error}", Position(name), hint="check the path"
    )
