"""Where each value of a manifest stands: the way back from a path of keys to file, line and column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hetctl.errors import Position, Problem
from hetctl.manifest.tree import Entry, File, Items, Keys, Scalar, Span, Tree
from hetctl.manifest.values import VARIABLE_PATTERN, fits

KeyPath = tuple[str | int, ...]
"""Keys and list indices from the top, as written in YAML: ("placements", "chat", "devices", 0)."""

_SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSW", re.IGNORECASE)
_SECRET_FLAGS = frozenset({"--api-key", "--hf-token", "-hft"})
_NOWHERE = File("", Path())


class Source:
    """The files a manifest was read from."""

    def __init__(self, documents: Sequence[Keys] = (), files: Sequence[File] = ()) -> None:
        self._documents = tuple(documents)
        self._files = tuple(files)
        self._hidden = [span for document in self._documents for span in _secrets(document)]

    @property
    def digests(self) -> Mapping[str, str]:
        """Digest (sha256, hex) of each file by its name, in the order they were read."""
        return {file.name: file.sha256 for file in self._files}

    def position(self, path: KeyPath, *, key: bool = False) -> Position:
        """Return where the value at `path` stands, or its key with `key`.

        When nothing is there, it is the place of the nearest parent that exists. A list may be addressed as a
        single item where the manifest allows one to be written without a list.
        """
        return self.span(path, key=key).position

    def span(self, path: KeyPath, *, key: bool = False) -> Span:
        """Return the place of `position` with its file and width."""
        entry, depth = self._find(path)
        if entry is None:
            return self._start()
        exact = depth == len(path)
        return entry.key if key or not exact or _starts_below(entry) else entry.value.span

    def directory(self, path: KeyPath) -> Path:
        """Return what a relative file name at `path` is relative to."""
        return self.span(path, key=True).file.directory

    def problem(
        self, code: str, message: str, path: KeyPath, *, hint: str = "", key: bool = False
    ) -> Problem:
        """Return a problem at `path`, or at its key with `key`."""
        return self.problem_at(code, message, self.span(path, key=key), hint=hint, path=path)

    def problem_at(
        self, code: str, message: str, span: Span, *, hint: str = "", path: KeyPath = ()
    ) -> Problem:
        """Return a problem at `span`; secrets on the line that is shown are masked."""
        return Problem(
            code=code,
            message=message,
            position=span.position,
            source_line=self._shown(span),
            width=span.width,
            hint=hint,
            path=path,
        )

    def hides(self, span: Span) -> bool:
        """Return whether what stands at `span` looks like a secret that must not be shown."""
        return any(
            h.file is span.file and (h.line, h.column) == (span.line, span.column) for h in self._hidden
        )

    def tree(self, path: KeyPath) -> Tree | None:
        """Return what is written at `path`; None when nothing is."""
        entry, depth = self._find(path)
        return entry.value if entry is not None and depth == len(path) else None

    def _start(self) -> Span:
        if self._documents:
            first = next(iter(self._documents[0].entries.values()), None)
            return first.key if first is not None else self._documents[0].span
        return Span(self._files[0] if self._files else _NOWHERE, 0, 0)

    def _find(self, path: KeyPath) -> tuple[Entry | None, int]:
        """Return the deepest existing entry on the way along `path` in any document, and how deep that is."""
        best: tuple[Entry | None, int] = (None, 0)
        for document in self._documents:
            found = _follow(document, path)
            if found[1] > best[1]:
                best = found
        return best

    def _shown(self, span: Span) -> str:
        line = span.text
        for hidden in self._hidden:
            if hidden.file is span.file and hidden.line == span.line:
                start = hidden.column - 1
                line = (
                    line[:start]
                    + "*" * len(line[start : start + hidden.width])
                    + line[start + hidden.width :]
                )
        return line


def _follow(document: Keys, path: KeyPath) -> tuple[Entry | None, int]:
    tree: Tree = document
    entry: Entry | None = None
    for depth, step in enumerate(path):
        if isinstance(tree, Keys) and isinstance(step, str) and step in tree.entries:
            entry = tree.entries[step]
        elif isinstance(tree, Items) and isinstance(step, int) and 0 <= step < len(tree.items):
            entry = Entry(tree.items[step].span, tree.items[step])
        elif step != 0 or isinstance(tree, Items):
            return entry, depth
        tree = entry.value if entry is not None else tree
    return entry, len(path) if entry is not None else 0


def _starts_below(entry: Entry) -> bool:
    """Return whether a value begins on a later line than its key, where pointing at it would mislead."""
    return not isinstance(entry.value, Scalar) and entry.value.span.line > entry.key.line


def _secrets(tree: Tree, *, inside: str = "") -> Iterator[Span]:
    """Yield the places of values that look like a secret written out where a reference belongs."""
    if isinstance(tree, Keys):
        for name, entry in tree.entries.items():
            below = name if name in {"apiKeys", "env", "args"} else inside
            if inside == "env" and not _SECRET_VARIABLE.search(name):
                below = ""
            if inside == "apiKeys" and name in {"env", "file", "command"}:
                below = "" if name != "env" else "apiKeys.env"
            yield from _secrets(entry.value, inside=below)
    elif isinstance(tree, Items):
        previous = ""
        for item in tree.items:
            text = item.text if isinstance(item, Scalar) else ""
            flag, _, value = text.partition("=")
            if inside == "args" and (previous in _SECRET_FLAGS or (flag in _SECRET_FLAGS and value)):
                yield item.span
            elif inside != "args":
                yield from _secrets(item, inside=inside)
            previous = text
    elif inside in {"apiKeys", "env"} or (inside == "apiKeys.env" and not fits(tree.text, VARIABLE_PATTERN)):
        yield tree.span
