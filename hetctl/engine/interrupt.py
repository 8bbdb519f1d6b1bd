"""Ctrl-C while changes are being made: once to stop gently, twice to stop now."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""SIGTERM is what a CI system sends when a job is cancelled."""


class Interrupts:
    """Counts how often the user asked to stop; any thread may ask, any may look."""

    def __init__(self) -> None:
        self._count = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def count(self) -> int:
        """0: go on; 1: start nothing new; 2: stop now."""
        return self._count

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` at each interrupt; it must return at once and not raise."""
        self._listeners.append(listener)

    def interrupt(self) -> None:
        """Ask once more to stop."""
        self._count += 1
        for listener in self._listeners:
            listener()


@contextmanager
def caught(interrupts: Interrupts) -> Iterator[Interrupts]:
    """Turn Ctrl-C into `interrupts` for the time of a run; after the second, it kills as it always does.

    Only the main thread can catch signals; elsewhere this changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    previous = {number: signal.getsignal(number) for number in SIGNALS}

    def handle(_number: int, _frame: FrameType | None) -> None:
        interrupts.interrupt()
        if interrupts.count > 1:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)

    for number in SIGNALS:
        signal.signal(number, handle)
    try:
        yield interrupts
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
