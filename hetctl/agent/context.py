"""What an operation may use: the node's paths, its request's body, and a way to send events back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hetctl.agent.failures import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STATE = "/var/lib/hetctl"
"""Everything hetctl remembers on a node."""


class Context:
    """One session's view of its node.

    Arguments:
        root: Prefix of every path; "/" outside of tests.
        send: Sends a frame of the running request: the frame and a body.
        blocks: Yields the body of the running request.
        sources: The agent's own modules, name to source.
        sha256: Hash of the bundle.
    """

    def __init__(
        self,
        root: str = "/",
        *,
        send: Callable[[dict[str, Any], bytes], None] = lambda _frame, _body: None,
        blocks: Callable[[], Iterator[bytes]] = lambda: iter(()),
        sources: dict[str, str] | None = None,
        sha256: str = "",
    ) -> None:
        self.root = root.rstrip("/")
        self._send = send
        self._blocks = blocks
        self.sources = sources or {}
        self.sha256 = sha256
        self.lock_descriptor: int | None = None
        self.deadline_at = float("inf")
        """Monotonic time at which the running operation will be ended."""

    def path(self, path: str) -> str:
        """Return where an absolute path of the node lies, seen from this process."""
        if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
            raise bad_request(f"not an absolute path without '..': {path!r}")
        return self.root + path

    def node_path(self, path: str) -> str:
        """Undo `path`."""
        return path[len(self.root) :] or "/"

    def event(self, event: dict[str, Any]) -> None:
        """Send progress of the running request."""
        self._send({"event": event}, b"")

    def body(self, block: bytes) -> None:
        """Send a block of the answer's body."""
        self._send({}, block)

    def upload(self) -> Iterator[bytes]:
        """Yield the blocks of the request's body."""
        return self._blocks()

    def time_left(self) -> float:
        """Return the seconds until the running operation is ended."""
        return max(0.0, self.deadline_at - time.monotonic())
