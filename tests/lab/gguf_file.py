"""Writing a GGUF file with the standard library alone.

Format: ggml's docs/gguf.md, version 3, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Value = str | bool | int | float | Sequence[str] | Sequence[int]

_VERSION = 3
_ALIGNMENT = 32
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
F32, F16 = 0, 1
"""Tensor types."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor.

    Arguments:
        shape: Rows first, as frameworks write it; the file holds the reverse.
        kind: `F32` or `F16`.
        data: Its values, row by row.
    """

    shape: tuple[int, ...]
    kind: int
    data: bytes


def write_gguf(path: Path, metadata: Mapping[str, Value], tensors: Mapping[str, Tensor]) -> None:
    """Write a file with these metadata and tensors, in their order."""
    head = [b"GGUF", struct.pack("<IQQ", _VERSION, len(tensors), len(metadata))]
    for key, value in metadata.items():
        head += [_string(key), _typed(value)]
    offset = 0
    for name, tensor in tensors.items():
        dimensions = struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        head += [_string(name), struct.pack("<I", len(tensor.shape)), dimensions]
        head.append(struct.pack("<IQ", tensor.kind, offset))
        offset += _padded(len(tensor.data))
    with path.open("wb") as file:
        file.write(_pad(b"".join(head)))
        for tensor in tensors.values():
            file.write(_pad(tensor.data))


def _typed(value: Value) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _string(value)
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", _UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", _FLOAT32, value)
    items = [_string(item) if isinstance(item, str) else struct.pack("<i", item) for item in value]
    kind = _STRING if isinstance(value[0], str) else _INT32
    return struct.pack("<IIQ", _ARRAY, kind, len(value)) + b"".join(items)


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _padded(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def _pad(data: bytes) -> bytes:
    return data.ljust(_padded(len(data)), b"\0")
