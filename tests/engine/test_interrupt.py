from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from hetctl.engine.interrupt import SIGNALS, Interrupts, caught


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_counts_instead_of_raising(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    heard: list[int] = []
    with caught(Interrupts()) as interrupts:
        interrupts.listen(lambda: heard.append(interrupts.count))
        os.kill(os.getpid(), number)
        assert interrupts.count == 1
    assert heard == [1]
    assert signal.getsignal(number) is before


def test_the_third_one_kills() -> None:
    script = """
import os, signal
from hetctl.engine.interrupt import Interrupts, caught
with caught(Interrupts()) as interrupts:
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGINT)
        print(interrupts.count, flush=True)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.stdout.split() == ["1", "2"]
    assert ended.returncode == -signal.SIGINT


def test_other_threads_leave_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def elsewhere() -> None:
        with caught(Interrupts()):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(20)
    assert seen == [before]
