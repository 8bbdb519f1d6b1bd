"""A session: the agent running on one node, answering requests over one channel."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hetctl.errors import (
    DeadlineExceeded,
    HetctlError,
    Interrupted,
    LockHeld,
    NodeUnsuitable,
    OperationFailed,
    ProtocolMismatch,
    Refused,
    SessionLost,
    TransportError,
)
from hetctl.transport.base import Channel, EventHandler, Json, Transport
from hetctl.transport.bootstrap import EXIT_NO_PYTHON, EXIT_TOO_OLD, READY, start_command
from hetctl.transport.bundle import agent_bundle
from hetctl.transport.frames import MAGIC, FrameStream, encode

PROTOCOL = 1
BEAT_SECONDS = 5.0
SILENCE_SECONDS = 30.0
HELLO_SECONDS = 20.0
ANSWER_SLACK = 15.0
"""Seconds beyond an operation's deadline in which the agent reports that it ended it."""

CANCEL_SECONDS = 15.0
CLOSE_SECONDS = 15.0
RECEIVE_SIZE = 1 << 18
BODIES_HELD = 64
PYTHON_FIX = "install Python 3.10 or newer on the node, such as `apt install python3`"

READ_ONLY_OPERATIONS = frozenset(
    {
        "facts", "marks", "observe", "routes", "probe_tcp", "probe_rpc", "http", "journal", "read_file", "partial",
        "get_tree", "hash_tree",
    }
)  # fmt: skip
"""What a read-only session may ask for; the agent refuses the rest too."""

_Item = tuple[dict[str, Any], bytes]


class AgentSession:
    """A running agent on one node. See `hetctl.transport.base.Session`.

    Arguments:
        node: Name of the node.
        transport: How to reach it.
        read_only: Refuse operations that change the node, here and there.
        root: Prefix of every path on the node; "/" outside of tests.
        become_root: Use sudo; None for: when the transport's user is not root.
        sudo_password: Returns what sudo asks for; None when it asks for nothing.
    """

    def __init__(
        self,
        node: str,
        transport: Transport,
        *,
        read_only: bool,
        root: str = "/",
        become_root: bool | None = None,
        sudo_password: Callable[[], str] | None = None,
    ) -> None:
        self._node = node
        self._transport = transport
        self._read_only = read_only
        self._root = root
        self._become_root = become_root
        self._sudo_password = sudo_password
        self._channel: Channel | None = None
        self._inbox: queue.Queue[_Item | TransportError] = queue.Queue()
        self._room = threading.BoundedSemaphore(BODIES_HELD)
        self._send_lock = threading.Lock()
        self._closing = threading.Event()
        self._lost: TransportError | None = None
        self._number = 0
        self.hello: Mapping[str, Json] = {}

    @property
    def node(self) -> str:
        """Name of the node."""
        return self._node

    @property
    def peer_address(self) -> str:
        """The node's own end of the connection, as the node sees it when it can tell."""
        return self.hello.get("server_address") or self._transport.peer_address

    # -- opening ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Connect, start the agent and wait for its greeting.

        Raises:
            TransportError: Which step failed, and what to do.
        """
        try:
            self._transport.open()
            self._start()
        except HetctlError as error:
            error.where = error.where or self._node
            self.close()
            raise
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        sudo = self._become_root
        if sudo is None:
            sudo = self._transport.user != "root"
        password = self._sudo_password() if sudo and self._sudo_password else None
        start = start_command(
            agent_bundle(), read_only=self._read_only, root=self._root, sudo=sudo, password=password
        )
        self._channel = channel = self._transport.execute(start.command)
        ends = time.monotonic() + HELLO_SECONDS
        frames = FrameStream(lambda: self._receive_before(channel, ends))
        try:
            channel.send(start.first_input)
            if start.second_input:
                if not frames.skip_to(READY):
                    raise self._did_not_start(channel)
                channel.send(start.second_input)
            started = frames.skip_to(MAGIC)
        except SessionLost as error:
            raise self._did_not_start(channel) from error
        item = frames.read() if started else None
        if item is None:
            raise self._did_not_start(channel)
        self.hello = item[0].get("hello", {})
        if self.hello.get("protocol") != PROTOCOL:
            raise ProtocolMismatch(
                f"the agent speaks protocol {self.hello.get('protocol')!r}, not {PROTOCOL}", where=self._node
            )
        frames.receive_with(lambda: channel.receive(RECEIVE_SIZE, deadline=SILENCE_SECONDS))
        threading.Thread(target=self._read, args=(frames,), name=f"read {self._node}", daemon=True).start()
        threading.Thread(target=self._beat, args=(channel,), name=f"beat {self._node}", daemon=True).start()

    def _receive_before(self, channel: Channel, ends: float) -> bytes:
        """Wait for output in slices, so that a refused sudo password is seen at once."""
        while True:
            left = ends - time.monotonic()
            if left <= 0:
                raise SessionLost(f"the agent did not greet within {HELLO_SECONDS:.0f} s", where=self._node)
            try:
                return channel.receive(RECEIVE_SIZE, deadline=min(left, 0.5))
            except SessionLost:
                if "try again" in channel.errors():
                    raise

    def _did_not_start(self, channel: Channel) -> TransportError:
        channel.close_input()
        status: int | None = None
        with contextlib.suppress(SessionLost):
            status = channel.exit_status(deadline=2.0)
        said = channel.errors().strip()
        if status == EXIT_TOO_OLD:
            return NodeUnsuitable("the node's Python is too old", where=self._node, why=said, fix=PYTHON_FIX)
        if "sudo" in said or "try again" in said:
            return NodeUnsuitable(
                f"{self._transport.target} may not become root",
                where=self._node,
                why=said,
                fix="log in as root, let sudo ask no password for this user, or give the password",
            )
        if status == EXIT_NO_PYTHON:
            return NodeUnsuitable(
                "there is no Python on the node", where=self._node, why=said, fix=PYTHON_FIX
            )
        if status is None:
            return NodeUnsuitable(
                f"the agent did not start within {HELLO_SECONDS:.0f} s",
                where=self._node,
                why=said,
                fix="look for a login script that waits for input",
            )
        return NodeUnsuitable(
            "the agent did not start",
            where=self._node,
            why=f"exit status {status}: {said}",
            fix="try `python3 -c 'print(1)'` on the node; a forced command or a nologin shell also looks like this",
        )

    # -- the two threads ----------------------------------------------------------------------------------------

    def _read(self, frames: FrameStream) -> None:
        lost: TransportError
        try:
            while (item := frames.read()) is not None:
                if "beat" in item[0]:
                    continue
                if item[1]:
                    self._room.acquire()
                self._inbox.put(item)
            lost = SessionLost("the agent went away", where=self._node, why=self._last_words())
        except TransportError as error:
            lost = error
        lost.where = lost.where or self._node
        self._inbox.put(lost)

    def _last_words(self) -> str:
        return self._channel.errors().strip()[-2000:] if self._channel else ""

    def _beat(self, channel: Channel) -> None:
        while not self._closing.wait(BEAT_SECONDS):
            try:
                with self._send_lock:
                    channel.send(encode({"beat": True}))
            except TransportError:
                return  # whoever waits for an answer learns it from the reader

    # -- requests -----------------------------------------------------------------------------------------------

    def call(
        self,
        operation: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        deadline: float = 60.0,
        on_event: EventHandler | None = None,
        upload: Iterable[bytes] | None = None,
        download: Callable[[bytes], None] | None = None,
    ) -> dict[str, Json]:
        """Run one agent operation and return its result; see `hetctl.transport.base.Session.call`."""
        if self._read_only and operation not in READ_ONLY_OPERATIONS:
            raise Refused(f"a read-only session may not {operation}", where=self._node)
        if self._lost is not None:
            raise SessionLost("the session has ended", where=self._node, why=self._lost.what)
        if self._channel is None:
            raise SessionLost("the session is not open", where=self._node)
        self._number += 1
        call = _Call(self._number, operation, time.monotonic() + deadline + ANSWER_SLACK, on_event, download)
        request: dict[str, Any] = {
            "id": call.number,
            "op": operation,
            "args": dict(arguments or {}),
            "deadline": deadline,
        }
        if upload is not None:
            request["upload"] = True
        try:
            self._send(request)
            if upload is not None:
                self._upload(call, upload)
            return self._answer(call)
        except TransportError as error:
            self._lose(error)
            raise
        except HetctlError:
            if not call.answered:
                self._cancel(call)
            raise
        except BaseException:
            if not call.answered:
                self._cancel(call)
            raise

    def _send(self, frame: dict[str, Any], body: bytes = b"") -> None:
        if self._channel is None:
            raise SessionLost("the session is not open", where=self._node)
        data = encode(frame, body)
        with self._send_lock:
            self._channel.send(data)

    def _upload(self, call: _Call, blocks: Iterable[bytes]) -> None:
        """Send the body; stop when the agent has already answered, which then is an error."""
        call.uploading = True
        for block in blocks:
            if not self._inbox.empty():
                break
            if time.monotonic() > call.ends:
                break
            if block:
                self._send({"id": call.number}, block)
        self._send({"id": call.number, "end": True})
        call.uploading = False

    def _next(self, ends: float, operation: str) -> _Item:
        try:
            item = self._inbox.get(timeout=max(0.0, ends - time.monotonic()))
        except queue.Empty:
            raise SessionLost(
                f"no answer to {operation}", where=self._node, why="its deadline passed"
            ) from None
        if isinstance(item, TransportError):
            raise item
        if item[1]:
            self._room.release()
        return item

    def _answer(self, call: _Call) -> dict[str, Json]:
        while True:
            frame, body = self._next(call.ends, call.operation)
            if frame.get("id") != call.number:
                raise ProtocolMismatch(
                    "the agent answered another request", where=self._node, why=repr(frame)[:200]
                )
            if "result" in frame:
                call.answered = True
                result: dict[str, Json] = frame["result"]
                return result
            if "error" in frame:
                call.answered = True
                raise self._error(call.operation, frame["error"])
            if body and call.download is not None:
                call.download(body)
            if "event" in frame and call.on_event is not None:
                call.on_event(frame["event"])

    def _cancel(self, call: _Call) -> None:
        """Take back a request after something went wrong on this side, and keep the session usable."""
        try:
            self._send({"cancel": call.number})
            if call.uploading:
                self._send({"id": call.number, "end": True, "aborted": True})
            ends = time.monotonic() + CANCEL_SECONDS
            while True:
                frame, _ = self._next(ends, call.operation)
                if frame.get("id") == call.number and ("result" in frame or "error" in frame):
                    return
        except TransportError as error:
            self._lose(error)

    def _error(self, operation: str, error: Mapping[str, Any]) -> HetctlError:
        kind, what = error.get("kind"), str(error.get("what", f"{operation} failed"))
        words = {"where": self._node, "why": str(error.get("why", "")), "fix": str(error.get("fix", ""))}
        if kind == "locked":
            holder = error.get("holder") or {}
            words["why"] = ", ".join(f"{key}: {value}" for key, value in holder.items())
            return LockHeld(what, **words)
        classes: dict[Any, type[HetctlError]] = {
            "deadline": DeadlineExceeded,
            "refused": Refused,
            "cancelled": Interrupted,
            "ended": SessionLost,
            "bad-request": ProtocolMismatch,
        }
        return classes.get(kind, OperationFailed)(what, **words)

    # -- the end ------------------------------------------------------------------------------------------------

    def _lose(self, error: TransportError) -> None:
        self._lost = error
        self._closing.set()
        if self._channel is not None:
            self._channel.close()

    def install_agent(self) -> None:
        """Leave the agent's bytecode on the node, so that later sessions start faster. Needs a writing session."""
        if not self.hello.get("installed"):
            self.call("install", {"bundle": agent_bundle().sha256})

    def close(self) -> None:
        """End the agent, which releases whatever it holds, and disconnect."""
        self._closing.set()
        channel, self._channel = self._channel, None
        if channel is not None:
            self._lost = self._lost or SessionLost("the session was closed", where=self._node)
            with contextlib.suppress(TransportError):
                channel.close_input()
                channel.exit_status(deadline=CLOSE_SECONDS)
            channel.close()
        self._transport.close()


class _Call:
    """One request in flight."""

    def __init__(
        self,
        number: int,
        operation: str,
        ends: float,
        on_event: EventHandler | None,
        download: Callable[[bytes], None] | None,
    ) -> None:
        self.number = number
        self.operation = operation
        self.ends = ends
        self.on_event = on_event
        self.download = download
        self.uploading = False
        self.answered = False


def open_sessions(
    targets: Mapping[str, Transport],
    *,
    read_only: bool,
    limit: int = 32,
    sudo_passwords: Mapping[str, Callable[[], str]] | None = None,
) -> dict[str, AgentSession | TransportError]:
    """Open sessions to several nodes at once.

    Arguments:
        targets: Node name to transport.
        read_only: Refuse operations that change a node.
        limit: Most connections being opened at the same time.
        sudo_passwords: For nodes whose sudo asks for one: returns it.

    Returns:
        For each node its open session, or why there is none.
    """
    results: dict[str, AgentSession | TransportError] = {}
    bugs: list[BaseException] = []
    waiting = list(targets.items())
    guard = threading.Lock()

    def work() -> None:
        while True:
            with guard:
                if not waiting:
                    return
                node, transport = waiting.pop(0)
            session = AgentSession(
                node, transport, read_only=read_only, sudo_password=(sudo_passwords or {}).get(node)
            )
            try:
                session.open()
                results[node] = session
            except TransportError as error:
                results[node] = error
            except BaseException as error:  # noqa: BLE001 - handed to the caller's thread below
                bugs.append(error)
                return

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(limit, len(waiting)))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if bugs:
            raise bugs[0]
    except BaseException:
        with guard:
            waiting.clear()
        for opened in results.values():
            if isinstance(opened, AgentSession):
                opened.close()
        raise
    return {node: results[node] for node in targets}
