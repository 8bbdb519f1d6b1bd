"""The operator's own machine as a node."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
import threading
from typing import IO

from hetctl.errors import NodeUnreachable, SessionLost

STDERR_KEPT = 64 << 10
SEND_SECONDS = 60.0
"""How long a command may refuse to read before it counts as lost."""

PIPE_SIZE = 1 << 20


class LocalChannel:
    """A command running on this machine."""

    def __init__(
        self, process: subprocess.Popen[bytes], stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]
    ) -> None:
        self._process = process
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        self._errors = bytearray()
        self._closed = False
        for stream in (stdin, stdout):
            with contextlib.suppress(OSError):  # only a matter of speed; unprivileged users have a quota
                fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        os.set_blocking(stdin.fileno(), False)
        self._drain = threading.Thread(target=self._collect_errors, daemon=True)
        self._drain.start()

    def _collect_errors(self) -> None:
        while block := os.read(self._stderr.fileno(), 1 << 16):
            self._errors += block
            del self._errors[:-STDERR_KEPT]

    def send(self, data: bytes) -> None:
        """Write all of `data` to the command's standard input."""
        view = memoryview(data)
        with selectors.DefaultSelector() as selector:
            try:
                selector.register(self._stdin, selectors.EVENT_WRITE)
                while view:
                    if not selector.select(SEND_SECONDS):
                        raise SessionLost("the command does not read its input", where="local")
                    view = view[os.write(self._stdin.fileno(), view[:PIPE_SIZE]) :]
            except (OSError, ValueError) as error:
                raise SessionLost(
                    "the command has ended", where="local", why=self.errors() or str(error)
                ) from error

    def receive(self, limit: int, *, deadline: float) -> bytes:
        """Return 1 to `limit` bytes of standard output, b"" at its end."""
        with selectors.DefaultSelector() as selector:
            try:
                selector.register(self._stdout, selectors.EVENT_READ)
                if not selector.select(deadline):
                    raise SessionLost(f"nothing from the command for {deadline:.0f} s", where="local")
                return os.read(self._stdout.fileno(), limit)
            except (OSError, ValueError) as error:
                raise SessionLost("the channel was closed", where="local", why=str(error)) from error

    def errors(self) -> str:
        """Return what the command wrote to standard error so far."""
        return self._errors.decode(errors="replace")

    def close_input(self) -> None:
        """Tell the command that nothing more will come."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def exit_status(self, *, deadline: float) -> int:
        """Wait for the command to end and return its exit status; 128 + N for signal N."""
        try:
            status = self._process.wait(deadline)
        except subprocess.TimeoutExpired as error:
            raise SessionLost(f"the command did not end within {deadline:.0f} s", where="local") from error
        self._drain.join(deadline)
        return status if status >= 0 else 128 - status

    def close(self) -> None:
        """End the command."""
        if self._closed:
            return
        self._closed = True
        self.close_input()
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._drain.join(1.0)
        self._stdout.close()
        if not self._drain.is_alive():  # a grandchild may still hold the stream
            self._stderr.close()


class LocalTransport:
    """Runs commands on this machine."""

    target = "local"
    peer_address = "127.0.0.1"

    @property
    def user(self) -> str:
        """Who runs the commands."""
        return "root" if os.geteuid() == 0 else str(os.geteuid())

    def open(self) -> None:
        """Do nothing: it is always there."""

    def execute(self, command: str) -> LocalChannel:
        """Start a shell command."""
        try:
            process = subprocess.Popen(  # the command comes from the quoting layer
                ["/bin/sh", "-c", command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise NodeUnreachable("no command can be started here", where="local", why=str(error)) from error
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        if stdin is None or stdout is None or stderr is None:
            raise NodeUnreachable("no command can be started here", where="local", why="no pipes")
        return LocalChannel(process, stdin, stdout, stderr)

    def close(self) -> None:
        """Do nothing: channels end by themselves."""
