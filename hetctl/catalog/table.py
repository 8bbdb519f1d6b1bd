"""Rows of a data file, and the range of builds a row speaks about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data")
"""Where the data files lie."""

Row = Mapping[str, Any]
"""One row as the file holds it."""


@dataclass(frozen=True, slots=True)
class Builds:
    """A range of build numbers, both ends included.

    Arguments:
        first: Earliest build; None when it held in the oldest build that was read.
        last: Latest build; None when it still held in the newest build that was read, so that it is taken to
            hold in later ones.
    """

    first: int | None = None
    last: int | None = None

    def __contains__(self, build: int) -> bool:
        return (self.first is None or build >= self.first) and (self.last is None or build <= self.last)

    def __str__(self) -> str:
        if self.first is None:
            return f"up to b{self.last}" if self.last is not None else "every build"
        return f"b{self.first} to b{self.last}" if self.last is not None else f"from b{self.first}"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a row comes from.

    Arguments:
        source: File of a source tree, page or test that says so.
        checked: Day it was last looked at, ISO 8601.
    """

    source: str
    checked: str


def read_rows(file: str) -> Sequence[Row]:
    """Return the rows of the data file named `file`."""
    rows: Sequence[Row] = json.loads((DATA / file).read_text(encoding="utf-8"))
    return rows


def builds_of(row: Row) -> Builds:
    """Return the range of builds that `row` speaks about."""
    return Builds(row["first"], row["last"])


def origin_of(row: Row) -> Origin:
    """Return where `row` comes from."""
    return Origin(row["source"], row["checked"])
