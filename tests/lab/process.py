"""Running the programs of this machine that the lab is made of."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class LabError(Exception):
    """The lab could not do what it was asked for."""


def run(*argv: object, text: str | None = None, check: bool = True, timeout: float = 60) -> str:
    """Run a program and return its standard output; raise LabError with its words when it fails."""
    done = subprocess.run(
        [str(part) for part in argv],
        input=text or "",
        text=True,
        capture_output=True,
        check=False,
        timeout=timeout,
    )
    if check and done.returncode:
        raise LabError(f"{' '.join(map(str, argv))}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = 60, pause: float = 0.02) -> None:
    """Return as soon as `condition` holds; raise LabError naming `what` after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise LabError(f"not within {seconds:g} s: {what}")
        time.sleep(pause)


def start_daemon(
    argv: Sequence[str], *, environment: Mapping[str, str] | None = None, log: Path | None = None
) -> None:
    """Start a program that goes on by itself, in a session of its own, with its output appended to `log`."""
    with (log or Path(os.devnull)).open("ab") as output:
        subprocess.run(
            ["setsid", "--fork", *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=True,
            env={**os.environ, **(environment or {})},
        )
