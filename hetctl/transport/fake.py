"""Stand-ins for tests, of hetctl and of what is built on it: no network, every call counted.

`FakeSession` answers operations from a script. `FakeTransport` runs commands from a script, or really, on
this machine, with faults at will; an `AgentSession` over it with `root=` is the real agent on a directory of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hetctl.errors import Interrupted, Refused, SessionLost, TransportError
from hetctl.transport.base import Channel, EventHandler, Json
from hetctl.transport.local import LocalTransport
from hetctl.transport.session import READ_ONLY_OPERATIONS


class Unscripted(AssertionError):  # noqa: N818 - the name says what holds
    """Something was asked that the script has no answer for."""


@dataclass(frozen=True, slots=True)
class FakeCall:
    """One call of a `FakeSession`.

    Arguments:
        operation: Its name.
        arguments: What it was given.
        body: What was uploaded.
        deadline: Seconds it was given.
    """

    operation: str
    arguments: Mapping[str, Json]
    body: bytes
    deadline: float


@dataclass(frozen=True, slots=True)
class FakeAnswer:
    """An answer with more than a result.

    Arguments:
        result: The operation's result.
        events: Sent before it.
        body: Blocks handed to `download`.
    """

    result: Mapping[str, Json]
    events: tuple[Mapping[str, Json], ...] = ()
    body: tuple[bytes, ...] = ()


Answer = Mapping[str, Json] | FakeAnswer | BaseException | Callable[[FakeCall], Any]
"""A result, more than a result, an error to raise, or a function that gives one of those."""


class FakeSession:
    """A session that answers from a script. See `hetctl.transport.base.Session`.

    Arguments:
        node: Name of the node.
        answers: Operation to answer; a list is used up one by one, its last answer stays.
        read_only: Refuse operations that change a node, as a real session does.
        peer_address: The node's address.
    """

    def __init__(
        self,
        node: str = "node",
        answers: Mapping[str, Answer | list[Answer]] | None = None,
        *,
        read_only: bool = False,
        peer_address: str = "127.0.0.1",
    ) -> None:
        self._node = node
        self._answers = {name: _as_list(answer) for name, answer in (answers or {}).items()}
        self._read_only = read_only
        self._peer_address = peer_address
        self.calls: list[FakeCall] = []
        self.closed = False

    @property
    def node(self) -> str:
        """Name of the node."""
        return self._node

    @property
    def peer_address(self) -> str:
        """The node's address."""
        return self._peer_address

    @property
    def mutations(self) -> list[FakeCall]:
        """The calls that would have changed the node."""
        return [call for call in self.calls if call.operation not in READ_ONLY_OPERATIONS]

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
        """Record the call and answer it from the script."""
        if stop is not None and stop():
            raise Interrupted(f"{operation} was interrupted", where=self._node)
        if self.closed:
            raise SessionLost("the session was closed", where=self._node)
        if self._read_only and operation not in READ_ONLY_OPERATIONS:
            raise Refused(f"a read-only session may not {operation}", where=self._node)
        body = b"".join(upload or ())
        call = FakeCall(operation, dict(arguments or {}), body, deadline)
        self.calls.append(call)
        answer = self._next(call)
        for event in answer.events:
            if on_event is not None:
                on_event(event)
        for block in answer.body:
            if download is not None:
                download(block)
        return dict(answer.result)

    def _next(self, call: FakeCall) -> FakeAnswer:
        script = self._answers.get(call.operation)
        if not script:
            raise Unscripted(f"{self._node} has no answer for {call.operation} {dict(call.arguments)}")
        answer: Any = script.pop(0) if len(script) > 1 else script[0]
        if callable(answer) and not isinstance(answer, BaseException):
            answer = answer(call)
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, FakeAnswer) else FakeAnswer(answer)

    def close(self) -> None:
        """End it."""
        self.closed = True


def _as_list(answer: Answer | list[Answer]) -> list[Answer]:
    return list(answer) if isinstance(answer, list) else [answer]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a scripted command does.

    Arguments:
        stdout: Its output.
        stderr: Its complaints.
        exit: Its exit status.
    """

    stdout: bytes = b""
    stderr: str = ""
    exit: int = 0


class FakeTransport:
    """A transport without a network.

    Arguments:
        target: How a person would name it.
        script: Command to reply; None to run commands on this machine.
        user: Who runs commands; sudo is used for anybody but root.
        peer_address: The node's address.
        refuse: Raised by `open`.
    """

    def __init__(
        self,
        target: str = "fake",
        *,
        script: Callable[[str], Reply] | None = None,
        user: str = "root",
        peer_address: str = "127.0.0.1",
        refuse: TransportError | None = None,
    ) -> None:
        self.target = target
        self.user = user
        self.peer_address = peer_address
        self._script = script
        self._refuse = refuse
        self._cut = False
        self.opened = 0
        self.commands: list[str] = []
        self.bytes_sent = 0
        self.bytes_received = 0

    def open(self) -> None:
        """Count, or raise what was asked for."""
        self.opened += 1
        if self._refuse is not None:
            raise self._refuse

    def execute(self, command: str) -> FakeChannel:
        """Count the command and start it."""
        self.commands.append(command)
        if self._script is not None:
            return FakeChannel(self, _ScriptedChannel(self._script(command)))
        return FakeChannel(self, LocalTransport().execute(command))

    def cut(self) -> None:
        """Break the connection: nothing arrives any more, in either direction."""
        self._cut = True

    def check(self) -> None:
        """Raise SessionLost when the connection was cut."""
        if self._cut:
            raise SessionLost("the connection broke", where=self.target)

    def close(self) -> None:
        """Do nothing."""


class FakeChannel:
    """Counts the bytes of another channel and takes part in the faults of its transport."""

    def __init__(self, owner: FakeTransport, inner: Channel) -> None:
        self._owner = owner
        self._inner = inner

    def send(self, data: bytes) -> None:
        """Count and pass on."""
        self._owner.check()
        self._owner.bytes_sent += len(data)
        self._inner.send(data)

    def receive(self, limit: int, *, deadline: float) -> bytes:
        """Count and pass on."""
        self._owner.check()
        data = self._inner.receive(limit, deadline=deadline)
        self._owner.check()
        self._owner.bytes_received += len(data)
        return data

    def errors(self) -> str:
        """Pass on."""
        return self._inner.errors()

    def close_input(self) -> None:
        """Pass on."""
        self._inner.close_input()

    def exit_status(self, *, deadline: float) -> int:
        """Pass on."""
        return self._inner.exit_status(deadline=deadline)

    def close(self) -> None:
        """Pass on."""
        self._inner.close()


class _ScriptedChannel:
    """A command whose output is known."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._left = reply.stdout

    def send(self, data: bytes) -> None:
        del data

    def receive(self, limit: int, *, deadline: float) -> bytes:
        del deadline
        block, self._left = self._left[:limit], self._left[limit:]
        return block

    def errors(self) -> str:
        return self._reply.stderr

    def close_input(self) -> None:
        pass

    def exit_status(self, *, deadline: float) -> int:
        del deadline
        return self._reply.exit

    def close(self) -> None:
        pass
