from __future__ import annotations

import io

import pytest

from hetctl.report.terminal import FALLBACK_WIDTH, Terminal, terminal_for


class Stream(io.StringIO):
    def __init__(self, interactive: bool) -> None:
        super().__init__()
        self.interactive = interactive

    def isatty(self) -> bool:
        return self.interactive


@pytest.mark.parametrize(
    ("interactive", "environment", "colour", "live"),
    [
        (True, {}, True, True),
        (False, {}, False, False),
        (True, {"NO_COLOR": "1"}, False, True),
        (True, {"NO_COLOR": ""}, True, True),
        (False, {"FORCE_COLOR": "1"}, True, False),
        (False, {"FORCE_COLOR": "0"}, False, False),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        (True, {"TERM": "dumb"}, False, False),
        (True, {"TERM": "dumb", "FORCE_COLOR": "1"}, True, False),
    ],
)
def test_what_can_be_shown(interactive: bool, environment: dict[str, str], colour: bool, live: bool) -> None:
    terminal = terminal_for(Stream(interactive), environment)
    assert (terminal.colour, terminal.live) == (colour, live)


def test_width() -> None:
    assert terminal_for(Stream(interactive=False), {"COLUMNS": "72"}).width == 72
    assert terminal_for(Stream(interactive=False), {"COLUMNS": "wide"}).width == FALLBACK_WIDTH
    assert terminal_for(Stream(interactive=False), {}).width == FALLBACK_WIDTH


def test_colours_wrap_only_when_there_are_some() -> None:
    assert Terminal().red("x") == "x"
    assert Terminal(colour=True).red("x") == "\x1b[31mx\x1b[0m"
    assert Terminal(colour=True).red("") == ""
