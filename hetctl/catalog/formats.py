"""What is known about model files: number formats, where tensors belong, how architectures cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from hetctl.catalog.table import Origin, origin_of, read_rows


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How one ggml type stores numbers.

    Arguments:
        id: Its number in model files.
        name: As llama.cpp prints it: `q4_K`.
        block: Numbers in a block.
        bytes: Bytes of a block.
    """

    id: int
    name: str
    block: int
    bytes: int
    origin: Origin

    def size(self, count: int) -> int:
        """Return the bytes of `count` numbers, which must fill whole blocks."""
        return count // self.block * self.bytes


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a tensor lies that belongs to no repeating layer; a tensor without a row belongs to the output.

    Arguments:
        name: Name without `.weight` or `.bias`.
        place: `input` (always the head's CPU), `first` (with layer 0) or `each` (a copy on every device).
    """

    name: str
    place: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Architecture:
    """How an architecture fills the KV cache.

    Arguments:
        name: `general.architecture` of the file.
        cache: `plain` (every layer keeps the whole context) or `window` (some layers keep a window only).
        window_every: Every how manyth layer keeps the whole context, unless the file says.
        window: Tokens of the window, unless the file says; 0: no window then.
    """

    name: str
    cache: str
    window_every: int
    window: int
    origin: Origin


@cache
def number_formats() -> Mapping[int, NumberFormat]:
    """Return every number format by its number."""
    rows = read_rows("ggml_types.json")
    return {
        row["id"]: NumberFormat(row["id"], row["name"], row["block"], row["bytes"], origin_of(row))
        for row in rows
    }


@cache
def format_named(name: str) -> NumberFormat:
    """Return the number format that llama.cpp calls `name`.

    Raises:
        KeyError: There is none.
    """
    return {entry.name: entry for entry in number_formats().values()}[name]


@cache
def tensor_places() -> Mapping[str, TensorPlace]:
    """Return every row about tensors outside the repeating layers, by name."""
    rows = read_rows("llama_tensors.json")
    return {row["name"]: TensorPlace(row["name"], row["place"], origin_of(row)) for row in rows}


@cache
def architectures() -> Mapping[str, Architecture]:
    """Return every architecture whose cache is understood, by name."""
    return {
        row["architecture"]: Architecture(
            row["architecture"], row["cache"], row["window_every"], row["window"], origin_of(row)
        )
        for row in read_rows("llama_architectures.json")
    }
