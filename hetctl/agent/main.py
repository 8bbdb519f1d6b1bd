"""The session loop: reads requests, performs them one at a time, and ends when the other side is gone.

Three threads. The main thread performs operations; a reader takes frames from standard input; a watcher
sends a sign of life every 5 s and ends the process when input was silent for 30 s. An operation is
interrupted by a signal, so a deadline works in any blocking call; one that still hangs is abandoned by ending
the process.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from hetctl.agent import process_groups
from hetctl.agent.context import Context
from hetctl.agent.failures import Failure, Interruption, bad_request
from hetctl.agent.frames import MAGIC, FrameError, FrameReader, FrameWriter
from hetctl.agent.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

PROTOCOL = 1
BEAT_SECONDS = 5.0
SILENCE_SECONDS = 30.0
HANG_SECONDS = 10.0
"""How long after its interruption an operation may take to clean up."""

AGAIN_SECONDS = 0.02
HUNG = "the operation hangs and cannot be ended"


class Agent:
    """The process on the node.

    Arguments:
        reader: Frames from the operator.
        writer: Frames to the operator.
        context: What operations work with.
        read_only: Refuse operations that change the node.
    """

    def __init__(self, reader: FrameReader, writer: FrameWriter, *, read_only: bool) -> None:
        self._reader = reader
        self._writer = writer
        self._read_only = read_only
        self._inbox: queue.Queue[tuple[dict[str, Any], bytes] | None] = queue.Queue(maxsize=64)
        self._guard = threading.Lock()
        self._current: int | None = None
        self._cancelled: set[int] = set()
        self._armed = False
        self._interruption = Interruption("deadline", "")
        self._interrupted_at = float("inf")
        self._deadline_at = float("inf")
        self._upload_open = False
        self._ended = False
        self._context: Context | None = None

    def _interrupt(self, kind: str, what: str) -> None:
        """End the running operation; called from the reader and the watcher."""
        with self._guard:
            if not self._armed or self._interrupted_at < float("inf"):
                return
            self._interruption = Interruption(kind, what)
            self._interrupted_at = time.monotonic()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def _on_signal(self, number: int, _frame: object) -> None:
        if not self._armed:
            return
        if process_groups.starting:  # a process that is not registered yet would be left behind
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
            return
        self._armed = False
        if number == signal.SIGALRM and self._interrupted_at == float("inf"):
            self._interrupted_at = time.monotonic()
            self._interruption = Interruption(
                "deadline", "the operation did not finish in the time it was given"
            )
        raise self._interruption

    def _read(self) -> None:
        """Reader thread: hand frames to the main thread until input ends."""
        why = "end of input"
        try:
            while (item := self._reader.read()) is not None:
                frame = item[0]
                if frame.get("beat"):
                    continue
                if "cancel" in frame:
                    self._cancel(frame["cancel"])
                    continue
                self._inbox.put(item)
        except (OSError, FrameError) as error:
            why = str(error)
        self._end(why)

    def _cancel(self, request: Any) -> None:
        with self._guard:
            self._cancelled.add(request)
            running = self._current == request
        if running:
            self._interrupt("cancelled", "the operator cancelled it")

    def _end(self, why: str) -> None:
        self._ended = True
        self._interrupt("ended", why)
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline:
            try:
                self._inbox.put(None, timeout=0.1)
            except queue.Full:
                continue
            break
        time.sleep(HANG_SECONDS)  # the main thread ends the process long before
        self._abandon()

    @staticmethod
    def _abandon() -> None:
        process_groups.kill_all(signal.SIGKILL)
        os._exit(70)

    def _watch(self) -> None:
        """Watcher thread: signs of life, silence of the operator, operations that cannot be interrupted."""
        while True:
            time.sleep(BEAT_SECONDS)
            now = time.monotonic()
            if min(self._interrupted_at, self._deadline_at) + HANG_SECONDS < now:
                self._reply({"error": Failure(HUNG, kind="deadline").as_json()})
                self._abandon()
            self._note_life(now - self._reader.last_input)
            if self._reader.waiting and now - self._reader.last_input > SILENCE_SECONDS:
                self._end(f"nothing from the operator for {SILENCE_SECONDS:.0f} s")
            try:
                self._writer.write({"beat": True})
            except OSError:
                self._end("the operator does not read")

    def _note_life(self, seconds_ago: float) -> None:
        """Let others see at the lock for how long the operator has been silent."""
        if self._context is not None and self._context.lock_descriptor is not None:
            from hetctl.agent.locks import heard  # noqa: PLC0415 - only when a lock was taken

            heard(self._context, seconds_ago)

    def _reply(self, frame: dict[str, Any], body: bytes = b"") -> None:
        self._writer.write({"id": self._current, **frame}, body)

    def _blocks(self) -> Iterator[bytes]:
        while self._upload_open:
            item = self._inbox.get()
            if item is None:
                self._upload_open = False
                raise Failure("the upload ended early", why="end of input")
            frame, body = item
            if frame.get("end"):
                self._upload_open = False
                if frame.get("aborted"):
                    raise Failure("the upload was aborted by the operator", kind="cancelled")
                return
            yield body

    def _perform(self, request: dict[str, Any], context: Context) -> dict[str, Any]:
        name = request.get("op")
        operation = OPERATIONS.get(name) if isinstance(name, str) else None
        arguments = request.get("args", {})
        if operation is None or not isinstance(arguments, dict):
            raise bad_request(f"no such operation: {name!r}")
        if operation.mutates and self._read_only:
            raise Failure(f"a read-only session may not {name}", kind="refused")
        seconds = float(request.get("deadline", 60.0))
        self._deadline_at = context.deadline_at = time.monotonic() + seconds
        with self._guard:
            if self._current in self._cancelled:
                raise Failure("cancelled before it began", kind="cancelled")
            self._interrupted_at = float("inf")
            self._armed = True
        try:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
            return operation.load()(context, arguments)
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _answer(self, request: dict[str, Any], context: Context) -> None:
        self._current = request.get("id")
        self._upload_open = bool(request.get("upload"))
        frame: dict[str, Any]
        try:
            frame = {"result": self._perform(request, context)}
        except Failure as failure:
            frame = {"error": failure.as_json()}
        except Interruption as interruption:
            kind = interruption.kind
            frame = {"error": Failure(f"{request.get('op')}: {interruption.what}", kind=kind).as_json()}
        except OSError as error:
            frame = {"error": Failure(f"{request.get('op')} failed", why=str(error)).as_json()}
        except Exception as error:  # noqa: BLE001 - a bug in one operation is reported, the session goes on
            import traceback  # noqa: PLC0415 - only for bugs, and every session starts faster without

            place = traceback.format_exc(limit=-3)
            frame = {"error": Failure(f"{request.get('op')} failed: {error!r}", why=place).as_json()}
        finally:
            self._interrupted_at = self._deadline_at = float("inf")
        self._reply(frame)
        try:
            for _block in self._blocks():
                pass  # what is left of a body nobody wants any more
        except Failure:
            self._upload_open = False
        with self._guard:
            self._cancelled.discard(self._current or 0)
            self._current = None

    def run(self, context: Context) -> None:
        """Answer requests until input ends."""
        self._context = context
        signal.signal(signal.SIGUSR1, self._on_signal)
        signal.signal(signal.SIGALRM, self._on_signal)
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        threading.Thread(target=self._watch, name="watcher", daemon=True).start()
        while (item := self._inbox.get()) is not None:
            self._answer(item[0], context)
            if self._ended:
                break

    def context(self, root: str, sources: dict[str, str], sha256: str) -> Context:
        """Return the context for this agent's operations."""
        return Context(root, send=self._reply, blocks=self._blocks, sources=sources, sha256=sha256)


def hello(sha256: str, *, installed: bool) -> dict[str, Any]:
    """Return the greeting."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    return {
        "protocol": PROTOCOL,
        "python": ".".join(map(str, sys.version_info[:3])),
        "pid": os.getpid(),
        "uid": os.geteuid(),
        "hostname": os.uname().nodename,
        "bundle": sha256,
        "installed": installed,
        "server_address": connection[2] if len(connection) == 4 else None,  # noqa: PLR2004 - client, port, server, port
    }


def serve(
    stream: Any, finder: Any, sha256: str, *, read_only: bool, root: str = "/", installed: bool = False
) -> int:
    """Greet and answer requests until the operator goes away.

    Arguments:
        stream: Buffered standard input behind the bundle.
        finder: The loader of the bundle's modules.
        sha256: Hash of the bundle.
        read_only: Refuse whatever changes the node.
        root: Prefix of every path.
        installed: Bytecode was found on the node.

    Returns:
        The exit status of the process.
    """
    output = os.dup(1)
    os.dup2(2, 1)  # whatever prints must not disturb the frames
    os.set_inheritable(output, False)  # noqa: FBT003 - positional only
    writer = FrameWriter(output)
    writer.raw(b"\n" + MAGIC + b"\n")
    writer.write({"hello": hello(sha256, installed=installed)})
    agent = Agent(FrameReader(stream), writer, read_only=read_only)
    context = agent.context(root, finder.sources, sha256)
    try:
        agent.run(context)
    except BrokenPipeError:
        return 0
    finally:
        process_groups.kill_all(signal.SIGKILL)
        if context.lock_descriptor is not None:
            from hetctl.agent.locks import leave  # noqa: PLC0415 - only when a lock was taken

            leave(context)
    return 0
