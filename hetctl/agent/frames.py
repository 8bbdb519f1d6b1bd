r"""The wire format: one JSON object a line; `"body": N` means that N raw bytes follow the newline."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Protocol

MAGIC = b"hetctl-agent-1"
"""The line before the first frame; whatever a login script printed before it is discarded."""

LONGEST_LINE = 64 << 20
LONGEST_BODY = 4 << 20
READ_SIZE = 1 << 20


class ByteSource(Protocol):
    """A buffered binary stream."""

    def read1(self, size: int = -1, /) -> bytes:
        """Return what is there, waiting only when nothing is; b"" at the end."""


class FrameError(Exception):
    """The other side sent something that is no frame."""


class FrameReader:
    """Reads frames and remembers when bytes last arrived."""

    def __init__(self, stream: ByteSource) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self.last_input = time.monotonic()
        self.waiting = False
        """True while blocked on the stream: only then does silence mean anything."""

    def _fill(self) -> bool:
        self.waiting = True
        block = self._stream.read1(READ_SIZE)
        self.waiting = False
        self.last_input = time.monotonic()
        self._buffer += block
        return bool(block)

    def read(self) -> tuple[dict[str, Any], bytes] | None:
        """Return the next frame and its body, None at the end of input.

        Raises:
            FrameError: What arrived is no frame.
        """
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > LONGEST_LINE:
                raise FrameError("a line is longer than any request")
            if not self._fill():
                return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            frame = json.loads(line)
        except ValueError as error:
            raise FrameError(f"not JSON: {line[:80]!r}") from error
        if not isinstance(frame, dict):
            raise FrameError(f"not an object: {line[:80]!r}")
        size = frame.get("body", 0)
        if not isinstance(size, int) or not 0 <= size <= LONGEST_BODY:
            raise FrameError(f"impossible body size: {line[:80]!r}")
        while len(self._buffer) < size:
            if not self._fill():
                return None
        body = bytes(self._buffer[:size])
        del self._buffer[:size]
        return frame, body


class FrameWriter:
    """Writes frames to a file descriptor; safe to use from several threads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def raw(self, data: bytes) -> None:
        """Write all of `data`."""
        view = memoryview(data)
        with self._lock:
            while view:
                view = view[os.write(self._descriptor, view) :]

    def write(self, frame: dict[str, Any], body: bytes = b"") -> None:
        """Write one frame with its body."""
        if body:
            frame = {**frame, "body": len(body)}
        self.raw(json.dumps(frame, separators=(",", ":")).encode() + b"\n" + body)
