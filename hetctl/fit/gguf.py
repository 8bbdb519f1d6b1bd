"""Reads the header of a GGUF file: metadata and tensor table, without the tensors' data.

The input is not trusted: sizes are bounded before anything is allocated, so that a damaged or hostile file
costs at most some 40 MiB and a few seconds. Format: ggml/include/gguf.h of llama.cpp, versions 2 and 3.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from hetctl.catalog.formats import NumberFormat, number_formats
from hetctl.errors import ModelUnreadable
from hetctl.fit.cursor import Cursor

MAX_PAIRS = 16_384
"""More metadata pairs than any model has (about 60)."""
MAX_TENSORS = 16_384
"""More tensors than any model has (about 2,000)."""
MAX_ELEMENTS = 2**22
"""More array elements in a whole header than any vocabulary with its merges and scores has."""
MAX_KEY = 1024
MAX_NAME = 63
"""Longest tensor name, in bytes (GGML_MAX_NAME less its terminator)."""
MAX_DIMENSIONS = 4
MAX_STRING = 2**28
KEPT_STRING = 64 * 1024
"""Longer strings, such as some chat templates, are skipped."""
KEPT_ELEMENTS = 4096
"""Longer arrays, such as vocabularies, are skipped; per-layer values have at most 512 elements."""
KEPT_BYTES = 8 * 2**20
"""Memory that metadata may take in all, counted with `_PAIR_COST` and `_ELEMENT_COST`."""

_PAIR_COST, _ELEMENT_COST = 256, 32
"""Bytes of memory that a pair and an element of a kept array take beyond their text (CPython, rounded up)."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LAYER = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Omitted:
    """A metadata value that was skipped.

    Arguments:
        count: Elements of an array, or bytes of a string.
    """

    count: int


Scalar = int | float | bool | str
Metadata = Scalar | tuple[Scalar, ...] | Omitted


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of the table.

    Arguments:
        name: Such as `blk.3.ffn_down.weight`.
        shape: Elements in each dimension, the fastest first.
        format: How its numbers are stored.
        offset: Bytes from the start of the data section.
        bytes: Bytes of its data, without padding.
    """

    name: str
    shape: tuple[int, ...]
    format: NumberFormat
    offset: int
    bytes: int

    @property
    def layer(self) -> int | None:
        """The repeating layer it belongs to; None when it belongs to none."""
        found = _LAYER.match(self.name)
        return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class Header:
    """What a GGUF file says before its data.

    Arguments:
        name: The file, for messages.
        version: 2 or 3.
        metadata: Values by key.
        tensors: In file order.
        data_offset: Where the data section starts, in bytes from the start of the file.
        file_bytes: Bytes the file must have at least.
    """

    name: str
    version: int
    metadata: Mapping[str, Metadata]
    tensors: tuple[Tensor, ...]
    data_offset: int
    file_bytes: int


def read_header(stream: BinaryIO, *, name: str, size: int | None = None) -> Header:
    """Read the header at the start of `stream`.

    Arguments:
        stream: Positioned at the first byte; need not be seekable. Read a little beyond the header.
        name: What to call the file in messages.
        size: Bytes of the whole file, to notice one that was cut short; None: not known.

    Raises:
        ModelUnreadable: It is no GGUF file, of a version or byte order that cannot be read, damaged or cut
            short.
    """
    cursor = Cursor(stream, name, size)
    if cursor.take(4) != b"GGUF":
        raise ModelUnreadable(
            "this is not a GGUF file", where=name, why="it does not start with GGUF", fix="give a .gguf file"
        )
    version = _version(cursor)
    tensor_count = cursor.count(MAX_TENSORS, "tensors")
    pairs = cursor.count(MAX_PAIRS, "metadata pairs")
    metadata = _Reading(cursor).metadata(pairs)
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= cursor.LONGEST or alignment & (alignment - 1):
        raise cursor.damaged(f"general.alignment is {alignment}, which is no power of two")
    formats = number_formats()
    tensors: list[Tensor] = []
    names: set[str] = set()
    expected = 0
    for _ in range(tensor_count):
        tensor = _tensor(cursor, formats)
        if tensor.name in names:
            raise cursor.damaged(f"it has two tensors called {tensor.name}")
        if tensor.offset != expected:
            raise cursor.damaged(f"{tensor.name} lies at {tensor.offset}, where {expected} was expected")
        names.add(tensor.name)
        tensors.append(tensor)
        expected += _padded(tensor.bytes, alignment)
    data_offset = _padded(cursor.offset, alignment)
    needed = data_offset + tensors[-1].offset + tensors[-1].bytes if tensors else cursor.offset
    if size is not None and size < needed:
        raise ModelUnreadable(
            "the file is cut short",
            where=name,
            why=f"its table describes {needed} bytes, and it has {size}",
            fix="copy or download it again",
        )
    return Header(name, version, metadata, tuple(tensors), data_offset, needed)


def _version(cursor: Cursor) -> int:
    version = cursor.number("I")
    if version and not version & 0xFFFF:
        raise ModelUnreadable(
            "this GGUF file is big-endian",
            where=cursor.name,
            why="it was written for another kind of processor",
            fix="convert it, or download the usual little-endian file",
        )
    if version not in (2, 3):
        raise ModelUnreadable(
            f"this is a GGUF file of version {version}",
            where=cursor.name,
            why="versions 2 and 3 can be read",
            fix="convert it again with a current llama.cpp",
        )
    return version


class _Reading:
    """Reads metadata, keeping an eye on how much was kept and how many elements were passed."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.kept = 0
        self.elements = 0

    def metadata(self, pairs: int) -> dict[str, Metadata]:
        values: dict[str, Metadata] = {}
        for _ in range(pairs):
            key = self.cursor.text(MAX_KEY, "a metadata key")
            if not key or key in values:
                raise self.cursor.damaged(f"the metadata key {key!r} is empty or stands twice")
            self._keep(len(key) + _PAIR_COST, key)
            values[key] = self._value(key)
        return values

    def _value(self, key: str) -> Metadata:
        kind = self.cursor.number("I")
        if kind == _ARRAY:
            return self._array(key)
        if kind == _STRING:
            return self._string(key)
        return self._scalar(kind, key)

    def _scalar(self, kind: int, key: str) -> Scalar:
        code = self._code(kind, key)
        value: Scalar = struct.unpack("<" + code, self.cursor.take(struct.calcsize("<" + code)))[0]
        return value

    def _code(self, kind: int, key: str) -> str:
        code = _SCALARS.get(kind)
        if code is None:
            raise self.cursor.damaged(f"{key} has the unknown type {kind}")
        return code

    def _string(self, key: str) -> str | Omitted:
        length = self.cursor.count(MAX_STRING, f"bytes in {key}")
        if length > KEPT_STRING:
            self.cursor.skip(length)
            return Omitted(length)
        self._keep(length, key)
        return self.cursor.take(length).decode("utf-8", "replace")

    def _array(self, key: str) -> tuple[Scalar, ...] | Omitted:
        kind = self.cursor.number("I")
        count = self.cursor.count(MAX_ELEMENTS, f"elements in {key}")
        self.elements += count
        if self.elements > MAX_ELEMENTS:
            raise self.cursor.damaged(f"its arrays have more than {MAX_ELEMENTS} elements")
        if kind == _STRING:
            self.cursor.skip_strings(count, MAX_STRING)
            return Omitted(count)
        code = self._code(kind, key)
        width = struct.calcsize("<" + code)
        if count > KEPT_ELEMENTS:
            self.cursor.skip(count * width)
            return Omitted(count)
        self._keep(count * _ELEMENT_COST, key)
        return struct.unpack(f"<{count}{code}", self.cursor.take(count * width))

    def _keep(self, size: int, key: str) -> None:
        self.kept += size
        if self.kept > KEPT_BYTES:
            raise self.cursor.damaged(
                f"its metadata up to {key} needs more than {KEPT_BYTES} bytes of memory"
            )


def _tensor(cursor: Cursor, formats: Mapping[int, NumberFormat]) -> Tensor:
    name = cursor.text(MAX_NAME, "a tensor name")
    dimensions = cursor.number("I")
    if dimensions > MAX_DIMENSIONS:
        raise cursor.damaged(f"{name} has {dimensions} dimensions")
    shape = tuple(cursor.number("Q") for _ in range(dimensions))
    form = formats.get(kind := cursor.number("I"))
    offset = cursor.number("Q")
    if form is None:
        raise ModelUnreadable(
            f"{name} has the unknown number format {kind}",
            where=cursor.name,
            why="the file is newer than this version of hetctl, or uses a format that was given up",
            fix="use a file in another quantisation",
        )
    elements = 1
    for extent in shape:
        elements *= extent
    row = shape[0] if shape else 1
    if row % form.block or elements >= 2**63 or (size := form.size(elements)) >= 2**63:
        raise cursor.damaged(f"{name} has the shape {shape}, which {form.name} cannot have")
    return Tensor(name, shape, form, offset, size)


def _padded(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
