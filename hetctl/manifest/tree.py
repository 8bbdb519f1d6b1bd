"""YAML as a tree of nodes that know where they stand.

Only plain data lives here: no object is ever constructed from a tag. Aliases share nodes; the parser refuses
cycles and bounds the expanded size, so walking a tree always ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetctl.errors import Position

LONGEST_SHOWN_LINE = 1000
"""Characters of a line that are still worth showing below an error."""


@dataclass(frozen=True, slots=True, eq=False)
class File:
    """One file of the manifest.

    Arguments:
        name: Path as the user named it; `<stdin>` for standard input.
        directory: What relative paths in it are relative to.
        lines: Its text, line by line without line ends.
        sha256: Digest of its bytes, hex.
    """

    name: str
    directory: Path
    lines: tuple[str, ...] = ()
    sha256: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """Where something stands in a file.

    Arguments:
        file: The file.
        line: 1-based.
        column: 1-based, in characters.
        width: Characters on that line, at least 1.
    """

    file: File
    line: int
    column: int
    width: int = 1

    @property
    def position(self) -> Position:
        """The same place without its extent."""
        return Position(self.file.name, self.line, self.column)

    @property
    def text(self) -> str:
        """The line it stands on; empty when that is too long to show."""
        if not 0 < self.line <= len(self.file.lines):
            return ""
        line = self.file.lines[self.line - 1]
        return line if len(line) <= LONGEST_SHOWN_LINE else ""


@dataclass(slots=True, eq=False)
class Scalar:
    """One value.

    Arguments:
        span: Where it stands.
        text: As the parser read it, quotes and escapes resolved.
        value: None, bool, int, float or str by YAML's 1.2 core schema.
    """

    span: Span
    text: str
    value: Any


@dataclass(slots=True, eq=False)
class Items:
    """A sequence."""

    span: Span
    items: list[Tree] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Entry:
    """A key and its value in a mapping."""

    key: Span
    value: Tree


@dataclass(slots=True, eq=False)
class Keys:
    """A mapping, merge keys resolved."""

    span: Span
    entries: dict[str, Entry] = field(default_factory=dict)


Tree = Scalar | Items | Keys


def plain(tree: Tree, *, extensions: bool = True) -> Any:
    """Return the tree as dicts, lists and scalars; keys that start with x- only with `extensions`."""
    if isinstance(tree, Keys):
        return {
            name: plain(entry.value, extensions=extensions)
            for name, entry in tree.entries.items()
            if extensions or not name.startswith("x-")
        }
    if isinstance(tree, Items):
        return [plain(item, extensions=extensions) for item in tree.items]
    return tree.value


def moved(tree: Tree, span: Span) -> Tree:
    """Return the same content standing at `span`: what an alias stands for, where the alias stands."""
    if isinstance(tree, Keys):
        return Keys(span, tree.entries)
    if isinstance(tree, Items):
        return Items(span, tree.items)
    return Scalar(span, tree.text, tree.value)
