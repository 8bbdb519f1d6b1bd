"""Secrets: read on the operator's machine when they are needed, and never shown."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hetctl.errors import SecretUnavailable

DEADLINE = 60.0
"""Seconds a command that prints a secret may take: a password manager may have to ask."""


def from_environment(name: str, environment: Mapping[str, str]) -> str:
    """Return the value of an environment variable.

    Raises:
        SecretUnavailable: It is not set.
    """
    if name not in environment:
        raise SecretUnavailable(f"the environment variable {name} is not set", fix=f"export {name}=…")
    return environment[name]


def from_file(path: Path) -> str:
    """Return the first line of a file.

    Raises:
        SecretUnavailable: It cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise SecretUnavailable(
            "the file of a secret cannot be read", why=f"{path}: {type(error).__name__}"
        ) from None


def from_command(argv: Sequence[str]) -> str:
    """Return what a command prints, its last line break removed; what it printed is never shown in errors.

    Raises:
        SecretUnavailable: It failed or took longer than a minute.
    """
    try:
        done = subprocess.run(list(argv), capture_output=True, check=True, timeout=DEADLINE, text=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        reason = type(error).__name__
        if isinstance(error, subprocess.CalledProcessError):
            reason = f"{argv[0]} ended with {error.returncode}"
        elif isinstance(error, subprocess.TimeoutExpired):
            reason = f"{argv[0]} took longer than {DEADLINE:.0f} s"
        raise SecretUnavailable(
            "a command that should print a secret failed", why=reason, fix="run the command by hand"
        ) from None
    return done.stdout.removesuffix("\n")


def checked_key(value: str, source: str) -> str:
    """Return a value that every client can send as an API key.

    Arguments:
        value: The secret.
        source: Where it comes from, for people.

    Raises:
        SecretUnavailable: No client could send it. An empty key would open the server to everybody.
    """
    if not value or not value.isascii() or not value.isprintable() or value != value.strip():
        raise SecretUnavailable(
            f"the secret from {source} cannot be an API key",
            why="it is empty, or holds spaces at an end, line breaks or letters that HTTP headers cannot",
            fix="store one word of letters, digits and signs there",
        )
    return value
