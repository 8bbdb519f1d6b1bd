"""Collects problems of a manifest as the checks find them."""

from __future__ import annotations

from collections.abc import Iterable

from hetctl.errors import Problem
from hetctl.manifest.source import KeyPath, Source
from hetctl.manifest.wording import guess

GUESSES_LIMIT = 100
"""Typos that get a guess; comparing names is slow, and nobody reads more."""

PROBLEMS_LIMIT = 200
"""Problems that are listed one by one."""


class ProblemList:
    """Problems found so far in one manifest.

    Arguments:
        source: Where things stand.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: list[Problem] = []
        self._guesses = 0

    @property
    def full(self) -> bool:
        """True when enough was found that looking closer only costs time."""
        return len(self.found) > 2 * PROBLEMS_LIMIT

    def add(self, code: str, message: str, path: KeyPath, *, hint: str = "", key: bool = False) -> None:
        """Add a problem at `path`, or at its key with `key`."""
        self.found.append(self.source.problem(code, message, path, hint=hint, key=key))

    def guess(self, name: str, known: Iterable[str]) -> str:
        """Return `did you mean 'x'?` or nothing, as long as guessing is worth the time."""
        self._guesses += 1
        return guess(name, known) if self._guesses <= GUESSES_LIMIT else ""


def arranged(problems: Iterable[Problem], files: Iterable[str]) -> tuple[Problem, ...]:
    """Return problems in file order without repetitions, the tail cut off when there are too many."""
    order = {name: number for number, name in enumerate(files)}
    unique = {(p.position, p.code, p.message): p for p in problems}
    ordered = sorted(
        unique.values(),
        key=lambda p: (order.get(p.position.file, -1), p.position.line, p.position.column, p.code),
    )
    if len(ordered) <= PROBLEMS_LIMIT:
        return tuple(ordered)
    more = len(ordered) - PROBLEMS_LIMIT
    last = Problem("E099", f"{more:,} more problems are not listed", ordered[PROBLEMS_LIMIT].position)
    return (*ordered[:PROBLEMS_LIMIT], last)
