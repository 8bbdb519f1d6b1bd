"""The operator's end of the wire format that `hetctl.agent.frames` speaks on a node."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hetctl.errors import ProtocolMismatch

MAGIC = b"hetctl-agent-1"
MOST_NOISE = 1 << 20
"""Bytes a login script may print before the agent's first line."""

LONGEST_LINE = 256 << 20


def encode(frame: dict[str, Any], body: bytes = b"") -> bytes:
    """Return one frame as bytes."""
    if body:
        frame = {**frame, "body": len(body)}
    return json.dumps(frame, separators=(",", ":")).encode() + b"\n" + body


def _parse(line: bytes) -> dict[str, Any]:
    try:
        frame = json.loads(line)
    except ValueError:
        frame = None
    size = frame.get("body", 0) if isinstance(frame, dict) else None
    if not isinstance(frame, dict) or type(size) is not int or size < 0:
        raise ProtocolMismatch("the agent sent something that is no frame", why=repr(line[:200]))
    return frame


class FrameStream:
    """Splits what an agent sends into frames.

    Arguments:
        receive: Returns the next bytes, b"" at the end.
    """

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        self._buffer = bytearray()

    def receive_with(self, receive: Callable[[], bytes]) -> None:
        """Take further bytes from another function."""
        self._receive = receive

    def _line(self, limit: int) -> bytes | None:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > limit:
                raise ProtocolMismatch("the node sends something that is not our protocol")
            block = self._receive()
            if not block:
                return None
            self._buffer += block
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def skip_to(self, wanted: bytes) -> bool:
        """Discard lines up to and including `wanted`; False when the stream ends before."""
        left = MOST_NOISE
        while (line := self._line(left)) is not None:
            if line.rstrip(b"\r") == wanted:
                return True
            left -= len(line)
        return False

    def read(self) -> tuple[dict[str, Any], bytes] | None:
        """Return the next frame and its body, None at the end.

        Raises:
            ProtocolMismatch: What arrived is no frame.
        """
        line = self._line(LONGEST_LINE)
        if line is None:
            return None
        frame = _parse(line)
        size: int = frame.get("body", 0)
        parts = []
        while size > 0:
            if not self._buffer:
                block = self._receive()
                if not block:
                    return None
                if len(block) <= size:
                    parts.append(block)
                    size -= len(block)
                    continue
                self._buffer += block
            part = bytes(self._buffer[:size])
            del self._buffer[: len(part)]
            parts.append(part)
            size -= len(part)
        return frame, b"".join(parts)
