"""Commands on a real terminal: a pseudo-terminal with a process on it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hetctl.errors import ExitCode

ROOT = Path(__file__).parents[2]
DEADLINE = 60.0

APPLY = """
import sys, time
from pathlib import Path
from hetctl.cli.main import run
from hetctl.cli.surroundings import Surroundings, from_process
from hetctl.resources.base import Step
from tests.cli.commands import bench
from tests.engine.toy import cluster_of, toy

def download(context):
    for part in range(5):
        context.progress("downloading", done=part * 2.0**30, total=4 * 2.0**30, unit="B")
        time.sleep(0.12)

cluster = cluster_of(toy("x", "a"))
cluster.extra_steps = (Step(name="fetch model", address="model/m", node="b", run=download),)
it = bench(cluster, Path(sys.argv[1]))
sys.exit(run(["apply", str(it.manifest)], Surroundings(from_process().console, it.load)))
"""


class Typist:
    """A process on a pseudo-terminal."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.end, inner = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", APPLY, str(folder)],
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "90", **environment},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)
        self.seen = ""

    def read_until(self, text: str) -> None:
        ends = time.monotonic() + DEADLINE
        while text not in self.seen:
            assert time.monotonic() < ends, self.seen
            assert self.read(), self.seen

    def read(self) -> bool:
        """Read some; return False at the end."""
        if not select.select([self.end], [], [], DEADLINE)[0]:
            return False
        try:
            piece = os.read(self.end, 65536)
        except OSError:  # Linux says so when the other side is closed
            return False
        self.seen += piece.decode(errors="replace")
        return bool(piece)

    def type(self, text: str) -> None:
        os.write(self.end, text.encode())

    def ended(self) -> int:
        while self.read():
            pass
        return self.process.wait(DEADLINE)


@pytest.fixture
def colours() -> dict[str, str]:
    return {"NO_COLOR": "", "FORCE_COLOR": ""}


@pytest.fixture
def typist(tmp_path: Path, colours: dict[str, str]) -> Iterator[Typist]:
    it = Typist(tmp_path, colours)
    yield it
    it.process.kill()
    it.process.wait(DEADLINE)
    os.close(it.end)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_asking_and_watching(typist: Typist) -> None:
    typist.read_until("Execute 1 change on toybox? [y/N]")
    assert "\x1b[32m+ x" in typist.seen
    typist.type("y\n")
    assert typist.ended() == ExitCode.DONE
    assert "2.0 GiB of 4.0 GiB" in typist.seen
    assert "b: fetch model: done" in plain(typist.seen)
    assert "2 done, 0 failed, 0 skipped, 0 not reached." in typist.seen


@pytest.mark.parametrize("colours", [{"NO_COLOR": "1", "FORCE_COLOR": ""}])
def test_without_colour(typist: Typist) -> None:
    typist.read_until("[y/N]")
    typist.type("y\n")
    assert typist.ended() == ExitCode.DONE
    assert "\x1b[3" not in typist.seen.replace("\x1b[?25", "")
    assert "2.0 GiB of 4.0 GiB" in typist.seen


@pytest.mark.parametrize("colours", [{"TERM": "dumb"}])
def test_a_terminal_that_can_do_nothing(typist: Typist) -> None:
    typist.read_until("[y/N]")
    typist.type("y\n")
    assert typist.ended() == ExitCode.DONE
    assert "\x1b" not in typist.seen
    assert "b: fetch model: done" in typist.seen


def test_ctrl_c_at_the_question(typist: Typist) -> None:
    typist.read_until("[y/N]")
    os.killpg(typist.process.pid, 2)
    assert typist.ended() == ExitCode.INTERRUPTED
    assert "stopped: interrupted" in plain(typist.seen)
    assert "Traceback" not in typist.seen
