"""Everything that another program will parse is written here, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


class Unquotable(ValueError):  # noqa: N818 - the name says what holds
    """There is no way to write this value in that place."""


def shell_word(text: str) -> str:
    """Return `text` as one word for a POSIX shell.

    Raises:
        Unquotable: It holds a NUL, which no argument can.
    """
    if "\0" in text:
        raise Unquotable(f"an argument cannot hold a NUL: {text!r}")
    if _PLAIN_WORD.fullmatch(text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def shell_command(words: Iterable[str]) -> str:
    """Return a command line for a POSIX shell."""
    return " ".join(shell_word(word) for word in words)
