"""Connecting a TCP socket within a deadline, set up so that SSH over it is fast and notices a dead peer."""

from __future__ import annotations

import contextlib
import ipaddress
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

LOST_SECONDS = 30
"""How long sent bytes may stay unacknowledged before the connection counts as lost."""


class ConnectDeadline:
    """Breaks whatever a login waits for once its time is up; can pause while a person is asked."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._started = 0.0
        self._timer: threading.Timer | None = None
        self._breakers: list[Callable[[], None]] = []
        self.expired = False

    def add(self, breaker: Callable[[], None]) -> None:
        """Register something to call when the time is up."""
        self._breakers.append(breaker)

    def left(self) -> float:
        """Return the seconds that remain, at least a little so that a socket does not become non-blocking."""
        gone = time.monotonic() - self._started if self._timer else 0.0
        return max(0.001, self._left - gone)

    def start(self) -> None:
        """Let time run."""
        self._started = time.monotonic()
        self._timer = threading.Timer(self._left, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def pause(self) -> None:
        """Stop the clock."""
        self._left = self.left()
        self.stop()

    def stop(self) -> None:
        """End the watch."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self.expired = True
        for breaker in self._breakers:
            with contextlib.suppress(OSError):
                breaker()


def resolve(host: str, port: int, seconds: float) -> list[tuple[Any, ...]]:
    """Return the addresses of a host as `getaddrinfo` does, but within `seconds`."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    answer: queue.Queue[list[tuple[Any, ...]] | OSError] = queue.Queue()

    def ask() -> None:
        try:
            answer.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
        except OSError as error:
            answer.put(error)

    threading.Thread(target=ask, name=f"resolve {host}", daemon=True).start()
    try:
        found = answer.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"the name server did not answer for {host}") from None
    if isinstance(found, OSError):
        raise found
    return found


def connect_socket(host: str, port: int, watch: ConnectDeadline) -> socket.socket:
    """Return a connected TCP socket with the options that make SSH fast and notice a dead peer.

    Raises:
        OSError: No address of the host could be connected to; the last one's error.
    """
    last: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in resolve(host, port, watch.left()):
        connected = socket.socket(family, kind, protocol)
        try:
            connected.settimeout(watch.left())
            connected.connect(address)
        except OSError as error:
            connected.close()
            last = error
            continue
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_SECONDS * 1000)
        return connected
    raise last
