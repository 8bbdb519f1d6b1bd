"""Secrets are found, checked, and never repeated."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hetctl.errors import ExitCode, SecretUnavailable
from hetctl.transport.secret_values import checked_key, from_command, from_environment, from_file

SECRET = "sk-Zq9-very-secret"


def said(call: Callable[[], object]) -> str:
    """Return everything the error of a call says."""
    with pytest.raises(SecretUnavailable) as raised:
        call()
    error = raised.value
    assert error.exit_code is ExitCode.USAGE
    text = " ".join([error.what, error.why, error.fix, str(error), repr(error)])
    assert SECRET not in text
    return text


def test_each_source_gives_the_value(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{SECRET}\nsomething else\n")
    assert from_environment("KEY", {"KEY": SECRET}) == SECRET
    assert from_file(file) == SECRET
    assert from_command([sys.executable, "-c", f"print('{SECRET}')"]) == SECRET


def test_a_variable_that_is_not_set() -> None:
    assert "export KEY=" in said(lambda: from_environment("KEY", {}))


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    assert "FileNotFoundError" in said(lambda: from_file(tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "UnicodeDecodeError" in said(lambda: from_file(tmp_path / "binary"))


def test_a_command_that_fails_says_nothing_of_what_it_printed() -> None:
    script = f"import sys; print('{SECRET}'); print('{SECRET}', file=sys.stderr); sys.exit(3)"
    assert "ended with 3" in said(lambda: from_command([sys.executable, "-c", script]))
    assert "FileNotFoundError" in said(lambda: from_command(["/nonexistent/pass"]))


@pytest.mark.parametrize(
    "value", ["", " ", f" {SECRET}", f"{SECRET} ", f"{SECRET}\nb", "sk-ü", "a\x7fb", "a\tb"]
)
def test_what_no_client_could_send_is_no_key(value: str) -> None:
    assert "env KEY" in said(lambda: checked_key(value, "env KEY"))


def test_any_printable_word_is_a_key() -> None:
    assert checked_key(SECRET, "env KEY") == SECRET
