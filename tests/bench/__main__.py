"""Timing figures: `make bench` prints them. Goals stand beside them; a missed goal is printed, not failed."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.end_to_end.workplace import APPLY_SECONDS, Workplace, chat_manifest
from tests.lab.cache import cache_directory
from tests.lab.hosts import Lab, bring_up
from tests.lab.parts import PARTS

RUNS = 7


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        for count in (3, 10):
            lab = bring_up([f"b{count}{chr(ord('a') + index)}" for index in range(count)])
            try:
                _measure(lab, Path(name) / str(count))
            finally:
                lab.down()


def _measure(lab: Lab, directory: Path) -> None:
    directory.mkdir()
    cache = cache_directory()
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache / "operator"), "CHAT_KEY": "sk-bench"}
    workplace = Workplace.beside(lab, directory, environment)
    names = [host.name for host in lab]
    workplace.write(
        chat_manifest(
            name="bench",
            head=names[0],
            workers=names[1:],
            addresses={host.name: host.address for host in lab},
            source=PARTS["llama_source"].path(),
            model=PARTS["small_model"].path(),
        )
    )
    begun = time.monotonic()
    workplace.expect(0, "apply", "--yes", seconds=APPLY_SECONDS)
    _print(f"first apply, {len(lab)} hosts", [time.monotonic() - begun], "")
    logins = _timed(lambda: _log_in_everywhere(lab, directory))
    _print(f"ssh host true, {len(lab)} hosts at once", logins, "what a run without changes should cost")
    _print(
        f"apply without changes, {len(lab)} hosts", _timed(lambda: workplace.expect(0, "apply", "--yes")), ""
    )
    _print("hetctl --help", _timed(lambda: workplace.expect(0, "--help")), "goal 0.15 s")
    _print("hetctl validate", _timed(lambda: workplace.expect(0, "validate")), "goal 0.3 s")


def _log_in_everywhere(lab: Lab, directory: Path) -> None:
    config = str(directory / "home" / ".ssh" / "config")
    running = [subprocess.Popen(["ssh", "-F", config, host.name, "true"]) for host in lab]
    failed = [process.args for process in running if process.wait() != 0]
    if failed:
        sys.exit(f"could not log in: {failed}")


def _timed(action: Callable[[], object]) -> list[float]:
    seconds = []
    for _ in range(RUNS):
        begun = time.monotonic()
        action()
        seconds.append(time.monotonic() - begun)
    return seconds


def _print(what: str, seconds: list[float], remark: str) -> None:
    figures = f"{min(seconds):7.2f} {statistics.median(seconds):7.2f} {max(seconds):7.2f} s"
    sys.stdout.write(f"{what:45}{figures}   {remark}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
