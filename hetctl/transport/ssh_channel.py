"""One command on a node over SSH: a paramiko channel with a deadline on every wait."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from hetctl.errors import SessionLost
from hetctl.transport.ssh_errors import translate

if TYPE_CHECKING:
    import paramiko

SEND_SECONDS = 60.0
"""How long a command may refuse to read before it counts as lost."""

SLICE_SECONDS = 0.25
"""Longest single wait inside of paramiko, which knows only one timeout for both directions."""

PACKET = 32 << 10
STDERR_KEPT = 64 << 10


class SSHChannel:
    """A command running on a node over SSH."""

    def __init__(self, channel: paramiko.Channel, target: str) -> None:
        self._channel = channel
        self._target = target
        self._errors = bytearray()
        channel.settimeout(SLICE_SECONDS)

    def send(self, data: bytes) -> None:
        """Write all of `data` to the command's standard input."""
        view = memoryview(data)
        ends = time.monotonic() + SEND_SECONDS
        while view:
            try:
                sent = self._channel.send(bytes(view[:PACKET]))
            except TimeoutError:
                if time.monotonic() > ends:
                    raise SessionLost("the command does not read its input", where=self._target) from None
                continue
            except (OSError, EOFError) as error:
                raise translate(error, self._target, stage="sending", opened=True) from error
            if not sent:
                raise SessionLost("the command has ended", where=self._target, why=self.errors().strip())
            view = view[sent:]
            ends = time.monotonic() + SEND_SECONDS

    def receive(self, limit: int, *, deadline: float) -> bytes:
        """Return 1 to `limit` bytes of standard output, b"" at its end."""
        ends = time.monotonic() + deadline
        while True:
            try:
                return self._channel.recv(limit)
            except TimeoutError:
                if time.monotonic() > ends:
                    raise SessionLost(
                        f"nothing from the node for {deadline:.0f} s", where=self._target
                    ) from None
            except (OSError, EOFError) as error:
                raise translate(error, self._target, stage="receiving", opened=True) from error

    def errors(self) -> str:
        """Return what the command wrote to standard error so far."""
        while self._channel.recv_stderr_ready():
            block = self._channel.recv_stderr(1 << 16)
            if not block:
                break
            self._errors += block
            del self._errors[:-STDERR_KEPT]
        return self._errors.decode(errors="replace")

    def close_input(self) -> None:
        """Tell the command that nothing more will come."""
        with contextlib.suppress(OSError, EOFError):  # it has gone already
            self._channel.shutdown_write()

    def exit_status(self, *, deadline: float) -> int:
        """Wait for the command to end and return its exit status; -1 when it was killed by a signal."""
        if not self._channel.status_event.wait(deadline):
            raise SessionLost(f"the command did not end within {deadline:.0f} s", where=self._target)
        if not self._channel.exit_status_ready() or self._channel.exit_status == -1:
            return -1
        return self._channel.recv_exit_status()

    def close(self) -> None:
        """End the command and free the channel."""
        with contextlib.suppress(OSError, EOFError):  # the connection is gone, and the channel with it
            self._channel.close()
