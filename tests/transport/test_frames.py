"""The wire format: what one end writes the other reads, whatever the pieces it arrives in."""

from __future__ import annotations

import io
import os
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetctl.agent.frames import FrameError, FrameReader, FrameWriter
from hetctl.errors import ProtocolMismatch
from hetctl.transport.frames import FrameStream, encode

text = st.text(max_size=8)
values = st.none() | st.booleans() | st.integers() | text | st.lists(text, max_size=3)
frames = st.tuples(
    st.dictionaries(text.filter(lambda key: key != "body"), values, max_size=3), st.binary(max_size=90)
)


def pieces(data: bytes, sizes: list[int]) -> Callable[[], bytes]:
    """Return a receiver that gives `data` in pieces of these sizes, then the rest."""
    stream = io.BytesIO(data)
    left = list(sizes)
    return lambda: stream.read(left.pop(0) if left else 1 << 20)


class InPieces:
    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive

    def read1(self, size: int = -1, /) -> bytes:
        del size
        return self._receive()


cuts = st.lists(st.integers(1, 20), max_size=60)


@settings(max_examples=50, deadline=None)
@given(sent=st.lists(frames, max_size=6), sizes=cuts)
def test_the_node_reads_what_the_operator_writes(
    sent: list[tuple[dict[str, object], bytes]], sizes: list[int]
) -> None:
    data = b"".join(encode(frame, body) for frame, body in sent)
    reader = FrameReader(InPieces(pieces(data, sizes)))
    for frame, body in sent:
        item = reader.read()
        assert item is not None
        assert ({key: value for key, value in item[0].items() if key != "body"}, item[1]) == (frame, body)
    assert reader.read() is None


@settings(max_examples=50, deadline=None)
@given(sent=st.lists(frames, max_size=6), sizes=cuts, noise=st.binary(max_size=100))
def test_the_operator_reads_what_the_node_writes(
    sent: list[tuple[dict[str, object], bytes]], sizes: list[int], noise: bytes
) -> None:
    reading, writing = os.pipe()
    writer = FrameWriter(writing)
    writer.raw(noise.replace(b"MAGIC", b"") + b"\nMAGIC\n")
    for frame, body in sent:
        writer.write(frame, body)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    stream = FrameStream(pieces(data, sizes))
    assert stream.skip_to(b"MAGIC")
    for frame, body in sent:
        item = stream.read()
        assert item is not None
        assert ({key: value for key, value in item[0].items() if key != "body"}, item[1]) == (frame, body)
    assert stream.read() is None


@pytest.mark.parametrize(
    "data",
    [b"no frame\n", b"[1]\n", b"1\n", b"\xff\n", b'{"body":-1}\n', b'{"body":99999999}\n', b'{"body":"x"}\n'],
)
def test_the_node_refuses_what_is_no_frame(data: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader(InPieces(pieces(data, []))).read()


@pytest.mark.parametrize(
    "data", [b"no frame\n", b"[1]\n", b"\xff\xfe\n", b'{"body":"x"}\n', b'{"body":-1}\n', b'{"body":true}\n']
)
def test_the_operator_refuses_what_is_no_frame(data: bytes) -> None:
    with pytest.raises(ProtocolMismatch):
        FrameStream(pieces(data, [])).read()


@pytest.mark.parametrize("data", [b'{"a"', b'{"body":5}\nab'])
def test_a_frame_cut_short_is_the_end(data: bytes) -> None:
    assert FrameStream(pieces(data, [])).read() is None
    assert FrameReader(InPieces(pieces(data, []))).read() is None
