"""Reads numbers and strings from an untrusted little-endian byte stream, forwards only."""

from __future__ import annotations

import struct
from typing import BinaryIO, ClassVar

from hetctl.errors import ModelUnreadable

_BLOCK = 256 * 1024


class Cursor:
    """A position in a stream.

    Arguments:
        stream: Positioned at the first byte to read.
        name: What to call it in messages.
        size: Bytes of the whole, so that a length that cannot be true is noticed; None: not known.
    """

    LONGEST: ClassVar[int] = 2**20
    """Most bytes that `take` returns at once."""

    def __init__(self, stream: BinaryIO, name: str, size: int | None = None) -> None:
        self.name = name
        self._stream = stream
        self._size = size
        self._buffer = b""
        self._at = 0
        self._start = 0

    @property
    def offset(self) -> int:
        """Bytes consumed so far."""
        return self._start + self._at

    def damaged(self, why: str) -> ModelUnreadable:
        """Return the error for a file whose content makes no sense."""
        return ModelUnreadable(
            "the file is damaged", where=self.name, why=why, fix="copy or download it again"
        )

    def take(self, length: int) -> bytes:
        """Return the next `length` bytes (at most `LONGEST`)."""
        if length > self.LONGEST:
            raise self.damaged(f"a value of {length} bytes at {self.offset}")
        self._need(length)
        self._at += length
        return self._buffer[self._at - length : self._at]

    def number(self, code: str) -> int:
        """Return the next integer, of the `struct` type `code`."""
        value: int = struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]
        return value

    def count(self, limit: int, what: str) -> int:
        """Return the next 64-bit number, which must not be above `limit`."""
        value = self.number("Q")
        if value > limit:
            raise self.damaged(f"it claims {value} {what}; {limit} is the most that makes sense")
        return value

    def text(self, limit: int, what: str) -> str:
        """Return the next string of at most `limit` bytes."""
        length = self.count(limit, f"bytes in {what}")
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise self.damaged(f"{what} at {self.offset} is no text") from None

    def skip(self, length: int) -> None:
        """Pass over `length` bytes."""
        held = len(self._buffer) - self._at
        if length <= held:
            self._at += length
            return
        if self._size is not None and self.offset + length > self._size:
            raise self._cut_short()
        self._start += len(self._buffer)
        self._buffer, self._at = b"", 0
        rest = length - held
        if self._stream.seekable():
            # One byte less, so that reading the last one notices a file that ends before.
            self._stream.seek(rest - 1, 1)
            self._start += rest - 1
            self.take(1)
            return
        while rest:
            block = self._stream.read(min(rest, _BLOCK))
            if not block:
                raise self._cut_short()
            rest -= len(block)
            self._start += len(block)

    def skip_strings(self, count: int, limit: int) -> None:
        """Pass over `count` strings of at most `limit` bytes each."""
        length_at = struct.Struct("<Q").unpack_from
        for _ in range(count):
            if len(self._buffer) - self._at < 8:  # noqa: PLR2004 - the width of a length
                self._need(8)
            (length,) = length_at(self._buffer, self._at)
            self._at += 8
            end = self._at + length
            if end <= len(self._buffer):
                self._at = end
            elif length > limit:
                raise self.damaged(f"a string of {length} bytes at {self.offset}")
            else:
                self.skip(length)

    def _need(self, length: int) -> None:
        missing = length - (len(self._buffer) - self._at)
        if missing <= 0:
            return
        parts = [self._buffer[self._at :]]
        while missing > 0:
            block = self._stream.read(max(missing, _BLOCK))
            if not block:
                raise self._cut_short()
            parts.append(block)
            missing -= len(block)
        self._start += self._at
        self._buffer, self._at = b"".join(parts), 0

    def _cut_short(self) -> ModelUnreadable:
        return ModelUnreadable(
            "the file is cut short",
            where=self.name,
            why=f"it ends inside its header, after byte {self.offset}",
            fix="copy or download it again",
        )
