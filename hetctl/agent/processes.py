"""Running programs: each in a process group of its own that ends with its operation."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from hetctl.agent import arguments as arg
from hetctl.agent import directories, process_groups
from hetctl.agent.failures import Failure, bad_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetctl.agent.context import Context

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STDOUT_KEPT = 256 << 10
STDERR_KEPT = 64 << 10
EVENT_SECONDS = 0.1
"""Shortest time between two progress events."""

BLOCK = 1 << 16


class Completed(NamedTuple):
    """How a program ended: exit status (negative: the signal that ended it) and the end of its output."""

    exit: int
    stdout: bytes
    stderr: bytes


def base_environment() -> dict[str, str]:
    """Return the environment that every program starts with."""
    return {
        "PATH": SEARCH_PATH,
        "HOME": os.environ.get("HOME", "/root"),
        "USER": os.environ.get("USER", "root"),
        "LC_ALL": "C.UTF-8",
    }


def find_program(context: Context, name: str, path: str = SEARCH_PATH) -> str | None:
    """Return where a program lies, None when it is not there."""
    for directory in path.split(":"):
        place = f"{context.root}{directory}/{name}"
        if os.access(place, os.X_OK) and os.path.isfile(place):
            return place
    return None


def need_program(context: Context, name: str, fix: str = "") -> str:
    """Return where a program lies.

    Raises:
        Failure: It is not there.
    """
    place = find_program(context, name)
    if place is None:
        raise Failure(f"the program {name} is not on this node", fix=fix or f"install {name} on the node")
    return place


@contextmanager
def started(
    context: Context,
    argv: list[str],
    *,
    env: dict[str, str] | None = None,
    cwd: str | None = None,
    stdin: int = subprocess.DEVNULL,
    stderr: int = subprocess.PIPE,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program; at the end of the block the program and its children are gone.

    The node's lock, if held, is passed on.
    """
    try:
        process = process_groups.start(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=base_environment() if env is None else env,
            cwd=cwd,
            pass_fds=() if context.lock_descriptor is None else (context.lock_descriptor,),
        )
    except OSError as error:
        raise Failure(f"{argv[0]} cannot be started", why=str(error)) from error
    try:
        yield process
    finally:
        process_groups.leave(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


class _Tail:
    """The last bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.data = bytearray()

    def add(self, block: bytes) -> None:
        self.data += block
        if len(self.data) > 2 * self._limit:
            del self.data[: -self._limit]

    def last(self) -> bytes:
        return bytes(self.data[-self._limit :])


class _LineEvents:
    """Sends the newest line of the output, at most every EVENT_SECONDS."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._partial = b""
        self._waiting: str | None = None
        self._sent = 0.0

    def add(self, block: bytes) -> None:
        *lines, self._partial = (self._partial[-4096:] + block).replace(b"\r", b"\n").split(b"\n")
        full = [line for line in lines if line.strip()]
        if full:
            self._waiting = full[-1].decode(errors="replace")
        self.flush()

    def flush(self, *, now: bool = False) -> None:
        if self._waiting is not None and (now or time.monotonic() - self._sent >= EVENT_SECONDS):
            self._context.event({"line": self._waiting})
            self._waiting = None
            self._sent = time.monotonic()


class _Exchange:
    """Feeds a program and collects its output until both of its streams end."""

    def __init__(
        self, process: subprocess.Popen[bytes], given: bytes, log: int | None, events: _LineEvents | None
    ) -> None:
        self._process = process
        self._given = memoryview(given)
        self._log = log
        self._events = events
        self.stdout = _Tail(STDOUT_KEPT)
        self.stderr = _Tail(STDERR_KEPT)

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for stream, tail in ((self._process.stdout, self.stdout), (self._process.stderr, self.stderr)):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, tail)
            if self._process.stdin is not None:
                os.set_blocking(self._process.stdin.fileno(), False)
                selector.register(self._process.stdin, selectors.EVENT_WRITE, None)
            while selector.get_map():
                for key, _ in selector.select(EVENT_SECONDS if self._events else None):
                    done = self._feed(key.fd) if key.data is None else self._collect(key.fd, key.data)
                    if done:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]  # these are the process's streams
                if self._events:
                    self._events.flush()
        if self._events:
            self._events.flush(now=True)

    def _feed(self, descriptor: int) -> bool:
        try:
            self._given = (
                self._given[os.write(descriptor, self._given[:BLOCK]) :] if self._given else self._given
            )
        except BrokenPipeError:
            return True  # it ended without reading everything, which is its right
        return not self._given

    def _collect(self, descriptor: int, tail: _Tail) -> bool:
        block = os.read(descriptor, BLOCK)
        tail.add(block)
        if block and self._log is not None:
            os.write(self._log, block)
        if block and self._events:
            self._events.add(block)
        return not block


def capture(
    context: Context,
    argv: list[str],
    given: bytes | None = None,
    *,
    env: dict[str, str] | None = None,
    cwd: str | None = None,
    log: int | None = None,
    events: bool = False,
) -> Completed:
    """Run a program to its end.

    Arguments:
        context: The session.
        argv: The program and its arguments.
        given: Its standard input; None for /dev/null.
        env: Its whole environment; None for the base environment.
        cwd: Its working directory.
        log: Descriptor that also gets all output.
        events: Send the newest line of output as progress.

    Returns:
        Exit status and the last part of both outputs.
    """
    stdin = subprocess.DEVNULL if given is None else subprocess.PIPE
    with started(context, argv, env=env, cwd=cwd, stdin=stdin) as process:
        exchange = _Exchange(process, given or b"", log, _LineEvents(context) if events else None)
        exchange.run()
        return Completed(process.wait(), exchange.stdout.last(), exchange.stderr.last())


def run(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run a program for the operator and tell how it went."""
    argv = arg.texts(arguments, "argv")
    if not argv:
        raise bad_request("argv is empty")
    env = arg.table(arguments, "env", {})
    if not all(isinstance(value, str) for value in env.values()):
        raise bad_request("env must hold strings")
    log, cwd, given = (arg.optional_text(arguments, name) for name in ("log", "cwd", "input"))
    descriptor = None
    if log is not None:
        directories.make(context, os.path.dirname(context.path(log)))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(context.path(log), flags, 0o644)
    began = time.monotonic()
    try:
        done = capture(
            context,
            argv,
            None if given is None else given.encode(),
            env={**base_environment(), **env},
            cwd=None if cwd is None else context.path(cwd),
            log=descriptor,
            events=arg.flag(arguments, "events"),
        )
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return {
        "exit": done.exit,
        "stdout": done.stdout.decode(errors="replace"),
        "stderr": done.stderr.decode(errors="replace"),
        "seconds": time.monotonic() - began,
    }
