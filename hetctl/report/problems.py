"""Problems of a manifest as people and as GitHub read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from hetctl.errors import Problem
from hetctl.report.terminal import PLAIN, Terminal

_NARROWEST = 40
"""Columns of source that are shown however narrow the terminal is."""


def problems_text(problems: Sequence[Problem], terminal: Terminal = PLAIN) -> str:
    """Return every problem with its line, a caret and a hint, and a last line that counts them.

    Codes that begin with W are warnings.
    """
    blocks = [_block(problem, terminal) for problem in problems]
    return "\n".join(blocks) + (f"\n{_count(problems)}\n" if problems else "")


def problems_for_github(problems: Sequence[Problem]) -> str:
    """Return problems as workflow commands, which GitHub shows beside the lines they are about."""
    text = ""
    for problem in problems:
        position = problem.position
        place = f"file={_property(position.file)}"
        if position.line:
            end = position.column + problem.width - 1
            place += f",line={position.line},col={position.column},endColumn={end}"
        words = f"{problem.message} ({problem.hint})" if problem.hint else problem.message
        kind = "warning" if _is_warning(problem) else "error"
        text += f"::{kind} {place},title={problem.code}::{_data(words)}\n"
    return text


def _block(problem: Problem, terminal: Terminal) -> str:
    paint = terminal.yellow if _is_warning(problem) else terminal.red
    text = f"{terminal.bold(str(problem.position))}: {paint(problem.code)} {problem.message}\n"
    if problem.source_line:
        number = str(problem.position.line)
        margin = " " * len(number)
        before, line, width = _window(problem, terminal.width - len(number) - 3)
        text += terminal.dim(f"{margin} |") + "\n"
        text += terminal.dim(f"{number} |") + f" {line}\n"
        text += terminal.dim(f"{margin} |") + f" {' ' * before}{paint('^' * width)}"
        text += f" {problem.hint}\n" if problem.hint else "\n"
    elif problem.hint:
        text += f"  = {problem.hint}\n"
    return text


def _window(problem: Problem, room: int) -> tuple[int, str, int]:
    """Return columns before the caret, the line cut to the room there is, and the caret's width."""
    line = "".join(
        character if character.isprintable() else _shown(character) for character in problem.source_line
    )
    start = min(problem.position.column - 1, len(line))
    end = min(start + problem.width, len(line))
    room = max(room, _NARROWEST)
    if columns(line) > room:
        left = max(0, min(start - room // 3, len(line) - room + 1))
        cut = line[left : left + room - 1]
        head, tail = ("…" if left else ""), ("…" if left + room - 1 < len(line) else "")
        line = f"{head}{cut[len(head) :]}{tail}"
        start, end = start - left, min(end - left, len(line))
    return columns(line[:start]), line, max(columns(line[start:end]), 1)


def _shown(character: str) -> str:
    return " " if character == "\t" else "\N{REPLACEMENT CHARACTER}"


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def _count(problems: Sequence[Problem]) -> str:
    warnings = sum(_is_warning(problem) for problem in problems)
    counts = [(len(problems) - warnings, "problem"), (warnings, "warning")]
    words = " and ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts if count)
    return f"{words}. docs/manifest-errors.md explains the codes."


def _is_warning(problem: Problem) -> bool:
    return problem.code.startswith("W")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
