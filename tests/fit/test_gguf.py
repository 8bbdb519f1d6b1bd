"""The header reader: real content, damaged content, hostile content."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hetctl.errors import ExitCode, ModelUnreadable
from hetctl.fit import gguf
from hetctl.fit.gguf import Header, Omitted, read_header
from tests.fit import gguf_writer
from tests.fit.gguf_writer import text

METADATA, TENSORS = gguf_writer.transformer()
START, DATA_SIZE = gguf_writer.header(METADATA, TENSORS)


class Pipe(io.RawIOBase):
    """A stream that cannot seek and returns little at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, 7) if size > 0 else size)


def read(data: bytes, size: int | None = None) -> Header:
    return read_header(io.BytesIO(data), name="model.gguf", size=size)


def test_metadata_and_tensors_are_read() -> None:
    header = read(START, len(START) + DATA_SIZE)
    assert header.version == 3
    assert header.metadata["general.architecture"] == "llama"
    assert header.metadata["llama.attention.head_count"] == 8
    assert [(tensor.name, tensor.shape, tensor.format.name) for tensor in header.tensors] == TENSORS
    assert header.tensors[0].bytes == 512 * 1024 * 34 // 32
    assert header.data_offset == len(START)
    assert header.file_bytes <= len(START) + DATA_SIZE


def test_a_stream_that_only_reads_forward_is_enough() -> None:
    assert read_header(Pipe(START), name="pipe").tensors == read(START).tensors  # type: ignore[arg-type] # reads are all it needs


def test_version_2_is_read() -> None:
    assert read(gguf_writer.header(METADATA, TENSORS, version=2)[0]).version == 2


def test_alignment_moves_the_data() -> None:
    metadata = {**METADATA, "general.alignment": ("u32", 4096)}
    start, size = gguf_writer.header(metadata, TENSORS, alignment=4096)
    header = read(start, len(start) + size)
    assert header.data_offset % 4096 == 0


def test_every_scalar_and_array_type() -> None:
    metadata: dict[str, gguf_writer.Pair] = {
        "u8": ("u8", 200),
        "i8": ("i8", -5),
        "u16": ("u16", 60000),
        "i16": ("i16", -3),
        "u32": ("u32", 2**32 - 1),
        "i32": ("i32", -1),
        "f32": ("f32", 0.5),
        "bool": ("bool", True),
        "str": ("str", "grüße"),
        "u64": ("u64", 2**63),
        "array": ("u32", [1, 2, 3]),
        "flags": ("bool", [True, False]),
        "words": ("str", ["a", "b"]),
        "empty": ("u32", []),
    }
    read_back = read(gguf_writer.header(metadata)[0]).metadata
    expected = {
        key: tuple(value) if isinstance(value, list) else value for key, (_, value) in metadata.items()
    }
    assert read_back == {**expected, "words": Omitted(2)}


def test_long_values_are_counted_and_not_kept() -> None:
    metadata: dict[str, gguf_writer.Pair] = {
        "tokenizer.ggml.tokens": ("str", ["token"] * 5000),
        "tokenizer.ggml.scores": ("f32", [0.0] * 5000),
        "tokenizer.chat_template": ("str", "x" * 70_000),
        "last": ("u32", 1),
    }
    read_back = read(gguf_writer.header(metadata)[0]).metadata
    assert [*read_back.values()] == [Omitted(5000), Omitted(5000), Omitted(70_000), 1]


def test_the_real_model(small_model: Path) -> None:
    with small_model.open("rb") as stream:
        header = read_header(stream, name=small_model.name, size=small_model.stat().st_size)
    assert header.metadata["general.architecture"] == "gemma3"
    assert header.metadata["tokenizer.ggml.tokens"] == Omitted(262144)
    assert (len(header.tensors), header.file_bytes) == (236, 253113024)


def test_a_file_without_tensors_ends_after_its_metadata() -> None:
    start, _ = gguf_writer.header(METADATA)
    assert read(start, len(start)).file_bytes == len(start)


def test_a_file_cut_short_is_noticed() -> None:
    with pytest.raises(ModelUnreadable, match="cut short") as failure:
        read(START, len(START) + DATA_SIZE - 40)
    assert str(len(START) + DATA_SIZE - 40) in failure.value.why
    assert failure.value.exit_code is ExitCode.MANIFEST_INVALID
    assert failure.value.where == "model.gguf"


@pytest.mark.parametrize("kept", [0, 3, 4, 7, 8, 23, 24, 100, 300, 1000])
@pytest.mark.parametrize("opened", [io.BytesIO, Pipe])
def test_a_header_cut_short_is_noticed(kept: int, opened: Callable[[bytes], io.BytesIO]) -> None:
    with pytest.raises(ModelUnreadable, match=r"cut short|not a GGUF file"):
        read_header(opened(START[:kept]), name="model.gguf")


def count(value: int) -> bytes:
    return struct.pack("<Q", value)


def number(value: int) -> bytes:
    return struct.pack("<I", value)


HEAD = b"GGUF" + number(3)
ONE_PAIR = HEAD + count(0) + count(1)
ONE_TENSOR = HEAD + count(1) + count(0)
HOSTILE = {
    "not gguf": (b"PK\3\4" + bytes(100), "not a GGUF file"),
    "version 1": (b"GGUF" + number(1) + bytes(100), "version 1"),
    "version 4": (b"GGUF" + number(4) + bytes(100), "version 4"),
    "big-endian": (b"GGUF" + struct.pack(">I", 3) + bytes(100), "big-endian"),
    "tensors without end": (HEAD + count(2**63) + count(0), "damaged"),
    "pairs without end": (HEAD + count(0) + count(2**64 - 1), "damaged"),
    "key without end": (ONE_PAIR + count(2**62), "damaged"),
    "key that is no text": (ONE_PAIR + text(b"\xff\xfe") + number(4) + number(1), "damaged"),
    "empty key": (ONE_PAIR + text("") + number(4) + number(1), "damaged"),
    "key twice": (HEAD + count(0) + count(2) + gguf_writer.pair("a", "u32", 1) * 2, "damaged"),
    "unknown type": (ONE_PAIR + text("a") + number(13), "damaged"),
    "array of arrays": (ONE_PAIR + text("a") + number(9) + number(9) + count(1), "damaged"),
    "string without end": (ONE_PAIR + text("a") + number(8) + count(2**50), "damaged"),
    "string past the end": (ONE_PAIR + text("a") + number(8) + count(2**27), "cut short"),
    "array without end": (ONE_PAIR + text("a") + number(9) + number(4) + count(2**61), "damaged"),
    "array past the end": (ONE_PAIR + text("a") + number(9) + number(4) + count(2**22), "cut short"),
    "strings past the end": (ONE_PAIR + text("a") + number(9) + number(8) + count(2**22), "cut short"),
    "string in an array without end": (
        ONE_PAIR + text("a") + number(9) + number(8) + count(1) + count(2**60),
        "damaged",
    ),
    "alignment zero": (ONE_PAIR + gguf_writer.pair("general.alignment", "u32", 0), "damaged"),
    "alignment odd": (ONE_PAIR + gguf_writer.pair("general.alignment", "u32", 48), "damaged"),
    "alignment is text": (ONE_PAIR + gguf_writer.pair("general.alignment", "str", "32"), "damaged"),
    "alignment huge": (ONE_PAIR + gguf_writer.pair("general.alignment", "u32", 2**31), "damaged"),
    "name too long": (ONE_TENSOR + text("x" * 64), "damaged"),
    "five dimensions": (ONE_TENSOR + text("x") + number(5), "damaged"),
    "dimensions without end": (ONE_TENSOR + text("x") + number(2**32 - 1), "damaged"),
    "shape overflows": (
        ONE_TENSOR + text("x") + number(4) + count(2**40) * 4 + number(0) + count(0),
        "damaged",
    ),
    "unknown format": (ONE_TENSOR + text("x") + number(1) + count(32) + number(4) + count(0), "format 4"),
    "row is no block": (ONE_TENSOR + text("x") + number(1) + count(33) + number(8) + count(0), "damaged"),
    "wrong offset": (ONE_TENSOR + text("x") + number(1) + count(32) + number(0) + count(32), "damaged"),
    "tensor twice": (
        HEAD
        + count(2)
        + count(0)
        + text("x")
        + number(1)
        + count(8)
        + number(0)
        + count(0)
        + text("x")
        + number(1)
        + count(8)
        + number(0)
        + count(32),
        "damaged",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("opened", [io.BytesIO, Pipe])
@pytest.mark.parametrize("sized", [True, False])
def test_hostile_headers_are_refused(
    name: str, opened: Callable[[bytes], io.BytesIO], *, sized: bool
) -> None:
    data, expected = HOSTILE[name]
    with pytest.raises(ModelUnreadable, match=expected) as failure:
        read_header(opened(data), name="model.gguf", size=len(data) if sized else None)
    assert failure.value.why
    assert failure.value.fix


def largest_allowed() -> bytes:
    """A header that fills every limit at once."""
    arrays = [
        text(f"array.{index}") + number(9) + number(0) + count(gguf.KEPT_ELEMENTS) + bytes(gguf.KEPT_ELEMENTS)
        for index in range(50)
    ]
    strings = gguf.MAX_ELEMENTS // 16
    vocabulary = text("tokens") + number(9) + number(8) + count(strings) + text("ab") * strings
    tensors = [
        text(f"{index:063d}") + number(1) + count(8) + number(0) + count(32 * index)
        for index in range(gguf.MAX_TENSORS)
    ]
    pairs = [*arrays, vocabulary]
    return b"GGUF" + number(3) + count(len(tensors)) + count(len(pairs)) + b"".join(pairs + tensors)


def test_the_largest_header_takes_little_memory_and_time() -> None:
    data = io.BytesIO(largest_allowed())
    started = time.monotonic()
    tracemalloc.start()
    header = read_header(data, name="model.gguf")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(header.tensors) == gguf.MAX_TENSORS
    assert peak < 64 * 2**20
    assert time.monotonic() - started < 60


def test_metadata_that_would_fill_memory_is_refused() -> None:
    pairs = b"".join(gguf_writer.pair(f"k{index}", "str", "x" * 60_000) for index in range(200))
    with pytest.raises(ModelUnreadable, match="damaged"):
        read(HEAD + count(0) + count(200) + pairs)


@settings(deadline=None)
@given(data=st.binary(max_size=400))
@example(data=b"")
def test_no_bytes_make_it_fail_otherwise(data: bytes) -> None:
    for start in (b"", HEAD, ONE_PAIR, ONE_TENSOR, ONE_PAIR + text("key"), ONE_TENSOR + text("name")):
        with suppress(ModelUnreadable):
            read(start + data)


@settings(deadline=None)
@given(
    where=st.integers(0, len(START) - 1),
    replacement=st.binary(min_size=1, max_size=9),
    cut=st.integers(0, len(START)),
    sized=st.booleans(),
)
def test_no_damage_makes_it_fail_otherwise(where: int, replacement: bytes, cut: int, *, sized: bool) -> None:
    damaged = (START[:where] + replacement + START[where + len(replacement) :])[: len(START) - cut % 50]
    with suppress(ModelUnreadable):
        header = read(damaged, len(damaged) + DATA_SIZE if sized else None)
        assert all(tensor.bytes >= 0 for tensor in header.tensors)
