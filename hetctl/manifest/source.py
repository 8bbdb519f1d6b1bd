"""Where each value of a manifest stands: the way back from a path of keys to file, line and column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hetctl.errors import Position, Problem
from hetctl.manifest.masking import secret_spans
from hetctl.manifest.tree import Entry, File, Items, Keys, Scalar, Span, Tree

KeyPath = tuple[str | int, ...]
"""Keys and list indices from the top, as written in YAML: ("placements", "chat", "devices", 0)."""

_NOWHERE = File("", Path())


class Source:
    """The files a manifest was read from."""

    def __init__(self, documents: Sequence[Keys] = (), files: Sequence[File] = ()) -> None:
        self._documents = tuple(documents)
        self._files = tuple(files)
        self._hidden: dict[tuple[str, int], dict[int, Span]] = {}  # by file and line, then column
        for document in self._documents:
            for span in secret_spans(document):
                self._hidden.setdefault((span.file.name, span.line), {})[span.column] = span

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
        return span.column in self._hidden.get((span.file.name, span.line), {})

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
        for hidden in self._hidden.get((span.file.name, span.line), {}).values() if line else ():
            start = hidden.column - 1
            line = line[:start] + "*" * len(line[start : start + hidden.width]) + line[start + hidden.width :]
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
