"""Errors as text: what, where, why, and how to fix it."""

from __future__ import annotations

import traceback

from hetctl.errors import HetctlError, Interrupted, ManifestInvalid
from hetctl.report.terminal import Terminal

BUG_TEXT = """\
This is a bug in hetctl, not in your manifest. The nodes are the state, so the next apply goes on from what is
there. Please report it with this traceback and the command you typed.
"""


def error_text(error: HetctlError, terminal: Terminal) -> str:
    """Return an error as people read it; every line ends with a newline."""
    if isinstance(error, ManifestInvalid):
        from hetctl.report.problems import problems_text  # noqa: PLC0415 - only the wrong manifest needs it

        return problems_text(error.problems, terminal)
    word = terminal.yellow("stopped") if isinstance(error, Interrupted) else terminal.red("error")
    lines = [f"{word}: {error.what}"]
    for label, text in (("where", error.where), ("why", error.why), ("fix", error.fix)):
        if text:
            lines.extend(_labelled(label, text))
    return "".join(f"{line}\n" for line in lines)


def _labelled(label: str, text: str) -> list[str]:
    first, *rest = text.rstrip().splitlines() or [""]
    return [f"  {label + ':':<7}{first}", *(f"         {line}" for line in rest)]


def bug_text(error: BaseException, terminal: Terminal) -> str:
    """Return an exception that should never have come this far, with its traceback."""
    trace = "".join(traceback.format_exception(error))
    return f"{trace}{terminal.red('bug')}: {type(error).__name__}: {error}\n{BUG_TEXT}"
