"""The seam between hetctl and a node: a transport carries bytes, a session carries requests.

Everything above this package sees only `Session`; nothing outside it opens a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

Json = Any
"""A value made of None, bool, int, float, str, list and dict."""

EventHandler = Callable[[Mapping[str, Json]], None]
"""Called with each event the agent sends while it works on a request."""


class Channel(Protocol):
    """One command running on a node, with its input, output and exit status."""

    def send(self, data: bytes) -> None:
        """Write all of `data` to the command's standard input."""

    def receive(self, limit: int, *, deadline: float) -> bytes:
        """Return 1 to `limit` bytes of standard output, b"" at its end.

        Raises:
            SessionLost: Nothing came for `deadline` seconds.
        """

    def errors(self) -> str:
        """Return what the command wrote to standard error so far (at most the last 64 KiB)."""

    def close_input(self) -> None:
        """Tell the command that nothing more will come."""

    def exit_status(self, *, deadline: float) -> int:
        """Wait up to `deadline` seconds for the command to end and return its exit status."""

    def close(self) -> None:
        """End the command and free the channel; safe to call twice."""


class Transport(Protocol):
    """A way to run commands on one node."""

    @property
    def target(self) -> str:
        """How a person would name the node's end, such as `root@10.0.0.5` or `local`."""

    @property
    def user(self) -> str:
        """Who commands run as; known once connected."""

    @property
    def peer_address(self) -> str:
        """The node's address as the connection sees it; `127.0.0.1` for a local node."""

    def open(self) -> None:
        """Connect. Raises a TransportError that says which step failed."""

    def execute(self, command: str) -> Channel:
        """Start `command` (a line for a POSIX shell) and return its channel."""

    def close(self) -> None:
        """Disconnect; safe to call twice."""


class Session(Protocol):
    """A running agent on one node. Requests are answered in order; one thread at a time may use it."""

    @property
    def node(self) -> str:
        """Name of the node in the manifest or in the member record."""

    @property
    def peer_address(self) -> str:
        """As `Transport.peer_address`."""

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
        """Run one agent operation and return its result.

        Arguments:
            operation: Name of the operation.
            arguments: What it needs.
            deadline: Seconds the operation may take; the agent ends it then.
            on_event: Receives progress while it runs.
            upload: Blocks sent after the request, for operations that take a body.
            download: Receives the blocks of a body that the operation sends back.
            stop: Asked about once a second; once it says True the operation is ended on the node.

        Raises:
            OperationFailed: The node tried and could not.
            DeadlineExceeded: It took longer than `deadline`.
            Interrupted: `stop` said True before the result was there.
            Refused: A read-only session was asked to change something.
            LockHeld: `lock` found another holder.
            SessionLost: The connection or the agent went away.
        """

    def close(self) -> None:
        """End the agent, which releases whatever it holds; safe to call twice."""
