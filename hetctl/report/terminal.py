"""What the place can show that text goes to: colours, live displays, width, letters."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

FALLBACK_WIDTH = 100
"""Columns where nothing says how wide the terminal is: fits a CI log."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """What can be shown.

    Arguments:
        colour: Escape sequences for colour are understood.
        live: A display may be redrawn in place.
        width: In columns.
    """

    colour: bool = False
    live: bool = False
    width: int = FALLBACK_WIDTH

    def red(self, text: str) -> str:
        """For removals and failures."""
        return self._dress(text, "31")

    def green(self, text: str) -> str:
        """For what is new and for what is well."""
        return self._dress(text, "32")

    def yellow(self, text: str) -> str:
        """For changes and warnings."""
        return self._dress(text, "33")

    def magenta(self, text: str) -> str:
        """For what is unknown or in the way."""
        return self._dress(text, "35")

    def bold(self, text: str) -> str:
        """For headings."""
        return self._dress(text, "1")

    def dim(self, text: str) -> str:
        """For what may be skipped."""
        return self._dress(text, "2")

    def _dress(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text


PLAIN = Terminal()
"""No colour, nothing live: files, pipes and tests."""


def terminal_for(stream: TextIO, environment: Mapping[str, str]) -> Terminal:
    """Return what `stream` can show.

    Honours NO_COLOR (no-color.org; wins over the next one), FORCE_COLOR (force-color.org), TERM=dumb and
    COLUMNS.

    Arguments:
        stream: Where the text goes.
        environment: The environment variables.
    """
    dumb = environment.get("TERM") == "dumb"
    interactive = stream.isatty()
    forced = environment.get("FORCE_COLOR", "") not in {"", "0"}
    refused = environment.get("NO_COLOR", "") != ""
    colour = not refused and (forced or (interactive and not dumb))
    columns = environment.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        width = int(columns)
    else:
        width = shutil.get_terminal_size((FALLBACK_WIDTH, 24)).columns if interactive else FALLBACK_WIDTH
    return Terminal(colour=colour, live=interactive and not dumb, width=width)
