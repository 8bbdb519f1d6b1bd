from __future__ import annotations

import pytest

from hetctl.errors import Interrupted, OperationFailed
from hetctl.report.errors import bug_text, error_text
from hetctl.report.terminal import PLAIN, Terminal


def test_what_where_why_fix() -> None:
    error = OperationFailed(
        "the build failed", where="atlas", why="line one\nline two\n", fix="install cmake"
    )
    assert error_text(error, PLAIN) == (
        "error: the build failed\n"
        "  where: atlas\n"
        "  why:   line one\n"
        "         line two\n"
        "  fix:   install cmake\n"
    )


def test_only_what_is_known() -> None:
    assert error_text(OperationFailed("no"), PLAIN) == "error: no\n"
    assert error_text(Interrupted("interrupted"), PLAIN) == "stopped: interrupted\n"
    assert error_text(OperationFailed("no"), Terminal(colour=True)).startswith("\x1b[31merror\x1b[0m: no")


def test_a_bug_has_its_traceback_and_says_that_it_is_one() -> None:
    nothing: dict[str, str] = {}
    with pytest.raises(KeyError) as caught:
        nothing["x"]
    text = bug_text(caught.value, PLAIN)
    assert "Traceback" in text
    assert "test_errors.py" in text
    assert "This is a bug in hetctl" in text
