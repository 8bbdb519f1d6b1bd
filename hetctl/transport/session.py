"""A session: the agent running on one node, answering requests over one channel."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hetctl.errors import (
    DeadlineExceeded,
    HetctlError,
    Interrupted,
    LockHeld,
    OperationFailed,
    ProtocolMismatch,
    Refused,
    SessionLost,
    TransportError,
)
from hetctl.transport.base import Channel, EventHandler, Json, Transport
from hetctl.transport.bundle import agent_bundle
from hetctl.transport.frames import FrameStream, encode
from hetctl.transport.launch import RECEIVE_SIZE, launch

BEAT_SECONDS = 5.0
SILENCE_SECONDS = 30.0
ANSWER_SLACK = 15.0
"""Seconds beyond an operation's deadline in which the agent reports that it ended it."""

STOP_SECONDS = 1.0
"""How often somebody who waits for an answer is asked whether it is still wanted."""

CANCEL_SECONDS = 15.0
CLOSE_SECONDS = 15.0
BODIES_HELD = 64

READ_ONLY_OPERATIONS = frozenset(
    {
        "facts", "marks", "observe", "routes", "probe_tcp", "probe_rpc", "http", "journal", "read_file",
        "partial", "get_tree", "hash_tree",
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
        self._answered = threading.Event()
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

    def open(self) -> None:
        """Connect, start the agent and wait for its greeting.

        Raises:
            TransportError: Which step failed, and what to do.
        """
        try:
            self._transport.open()
            launched = launch(
                self._transport,
                self._node,
                read_only=self._read_only,
                root=self._root,
                become_root=self._become_root,
                sudo_password=self._sudo_password,
            )
        except HetctlError as error:
            error.where = error.where or self._node
            self.close()
            raise
        except BaseException:
            self.close()
            raise
        self._channel, self.hello = launched.channel, launched.hello
        launched.frames.receive_with(
            partial(launched.channel.receive, RECEIVE_SIZE, deadline=SILENCE_SECONDS)
        )
        self._start_thread(self._read, launched.frames)
        self._start_thread(self._beat, launched.channel)

    def _start_thread(self, work: Callable[..., None], argument: object) -> None:
        threading.Thread(
            target=work, args=(argument,), name=f"{work.__name__} {self._node}", daemon=True
        ).start()

    def _read(self, frames: FrameStream) -> None:
        lost: TransportError
        try:
            while (item := frames.read()) is not None:
                if "beat" in item[0]:
                    continue
                self._hand_over(item)
            lost = SessionLost("the agent went away", where=self._node, why=self._last_words())
        except TransportError as error:
            lost = error
        lost.where = lost.where or self._node
        self._answered.set()
        self._inbox.put(lost)

    def _hand_over(self, item: _Item) -> None:
        """Put a frame where `call` finds it; bodies wait until there is room."""
        if item[1]:
            while not self._room.acquire(timeout=1.0):
                if self._closing.is_set():
                    raise SessionLost("the session was closed", where=self._node)
        if "result" in item[0] or "error" in item[0]:
            self._answered.set()
        self._inbox.put(item)

    def _last_words(self) -> str:
        return self._channel.errors().strip()[-2000:] if self._channel else ""

    def _beat(self, channel: Channel) -> None:
        while not self._closing.wait(BEAT_SECONDS):
            try:
                with self._send_lock:
                    channel.send(encode({"beat": True}))
            except TransportError:
                return  # whoever waits for an answer learns it from the reader

    def call(
        self,
        operation: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        deadline: float = 60.0,
        on_event: EventHandler | None = None,
        upload: Iterable[bytes] | None = None,
        download: Callable[[bytes], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> dict[str, Json]:
        """Run one agent operation and return its result; see `hetctl.transport.base.Session.call`."""
        if self._read_only and operation not in READ_ONLY_OPERATIONS:
            raise Refused(f"a read-only session may not {operation}", where=self._node)
        if self._lost is not None:
            raise SessionLost("the session has ended", where=self._node, why=self._lost.what)
        self._number += 1
        self._answered.clear()
        ends = time.monotonic() + deadline + ANSWER_SLACK
        call = _Call(self._number, operation, ends, on_event, download, stop)
        request = {"id": call.number, "op": operation, "args": dict(arguments or {}), "deadline": deadline}
        try:
            self._send({**request, "upload": True} if upload is not None else request)
            if upload is not None:
                self._upload(call, upload)
            return self._answer(call)
        except TransportError as error:
            if not call.answered:
                self._lose(error)
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
        """Send the body; stop when the agent has answered before its end, which then is an error."""
        call.uploading = True
        for block in blocks:
            self._check_stop(call)
            if self._answered.is_set():
                self._send({"id": call.number, "end": True, "aborted": True})
                break
            if block:
                self._send({"id": call.number}, block)
        else:
            self._send({"id": call.number, "end": True})
        call.uploading = False

    def _check_stop(self, call: _Call) -> None:
        if call.stop is not None and call.stop():
            raise Interrupted(f"{call.operation} was interrupted", where=self._node)

    def _next(self, ends: float, operation: str) -> _Item:
        try:
            return self._taken(self._inbox.get(timeout=max(0.0, ends - time.monotonic())))
        except queue.Empty:
            raise SessionLost(
                f"no answer to {operation}", where=self._node, why="its deadline passed"
            ) from None

    def _next_unless_stopped(self, call: _Call) -> _Item:
        while call.stop is not None and time.monotonic() + STOP_SECONDS < call.ends:
            self._check_stop(call)
            with contextlib.suppress(queue.Empty):
                return self._taken(self._inbox.get(timeout=STOP_SECONDS))
        return self._next(call.ends, call.operation)

    def _taken(self, item: _Item | TransportError) -> _Item:
        if isinstance(item, TransportError):
            raise item
        if item[1]:
            self._room.release()
        return item

    def _answer(self, call: _Call) -> dict[str, Json]:
        while True:
            frame, body = self._next_unless_stopped(call)
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

    def _lose(self, error: TransportError) -> None:
        self._lost = error
        self._closing.set()
        if self._channel is not None:
            self._channel.close()

    def install_agent(self) -> None:
        """Leave the agent's bytecode on the node, so that later sessions start faster."""
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


@dataclass(slots=True)
class _Call:
    """One request in flight."""

    number: int
    operation: str
    ends: float
    on_event: EventHandler | None
    download: Callable[[bytes], None] | None
    stop: Callable[[], bool] | None
    uploading: bool = False
    answered: bool = False


class _Opening:
    """Opens sessions from several threads.

    Arguments:
        sessions: What to open.
    """

    def __init__(self, sessions: Sequence[AgentSession]) -> None:
        self._waiting = list(sessions)
        self._guard = threading.Lock()
        self._bug: BaseException | None = None
        self.results: dict[str, AgentSession | TransportError] = {}

    def run(self, threads: int) -> None:
        """Open all; a Ctrl-C or a bug closes those that were opened."""
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        except BaseException:
            self._give_up()
            raise
        if self._bug is not None:
            self._give_up()
            raise self._bug

    def _work(self) -> None:
        while (session := self._take()) is not None:
            try:
                session.open()
                self.results[session.node] = session
            except TransportError as error:
                self.results[session.node] = error
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                self._bug = error
                return

    def _take(self) -> AgentSession | None:
        with self._guard:
            return self._waiting.pop(0) if self._waiting else None

    def _give_up(self) -> None:
        with self._guard:
            self._waiting.clear()
        for opened in self.results.values():
            if isinstance(opened, AgentSession):
                opened.close()


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
    passwords = sudo_passwords or {}
    opening = _Opening(
        [
            AgentSession(node, transport, read_only=read_only, sudo_password=passwords.get(node))
            for node, transport in targets.items()
        ]
    )
    opening.run(min(limit, len(targets)))
    return {node: opening.results[node] for node in targets}
