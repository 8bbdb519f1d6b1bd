"""How values and names from a manifest appear in messages: short, printable, with a guess at typos."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice
from typing import Any

_LONGEST = 60
_GUESSED = 40
_CANDIDATES = 500


def quoted(text: str, *, longest: int = _LONGEST) -> str:
    """Return `text` in quotes, shortened, with everything that could upset a terminal escaped."""
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return "'" + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short) + "'"


def named(kind: str, name: str) -> str:
    """Return such as `placement 'chat'`."""
    return f"{kind} {quoted(name)}"


def listed(names: Iterable[str], *, word: str = "or") -> str:
    """Return `a, b or c`; at most eight names."""
    items = list(names)
    if len(items) > 8:  # noqa: PLR2004 - a longer list is not read
        return ", ".join(items[:8]) + ", …"
    return f" {word} ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))


def guess(name: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?` when a known name is near, else nothing."""
    if len(name) > _GUESSED:
        return ""
    names = list(islice(known, _CANDIDATES))
    lowered = {candidate.lower().replace("-", "").replace("_", ""): candidate for candidate in names}
    near = lowered.get(name.lower().replace("-", "").replace("_", ""))
    if near is None:
        found = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
        near = found[0] if found else None
    return f"did you mean {quoted(near)}?" if near is not None else ""


def described(value: Any) -> str:
    """Return what kind of value was written: `the number 3`, `a list`."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {quoted(value)}" if value else "an empty text"
        case list():
            return "a list"
        case dict():
            return "a mapping"
    return "nothing"
