"""Reading forwards from an untrusted stream."""

from __future__ import annotations

import io

import pytest

from hetctl.errors import ModelUnreadable
from hetctl.fit.cursor import Cursor


def test_it_counts_what_it_passes() -> None:
    cursor = Cursor(io.BytesIO(bytes(range(200))), "x")
    assert cursor.take(3) == b"\0\1\2"
    cursor.skip(97)
    assert cursor.number("B") == 100
    assert cursor.offset == 101


def test_a_long_skip_seeks() -> None:
    stream = io.BytesIO(bytes(2_000_000) + b"\x07")
    cursor = Cursor(stream, "x")
    cursor.take(1)
    cursor.skip(1_999_999)
    assert cursor.number("B") == 7
    assert cursor.offset == 2_000_001


def test_it_never_allocates_what_a_length_claims() -> None:
    cursor = Cursor(io.BytesIO(bytes(10)), "x")
    with pytest.raises(ModelUnreadable, match="damaged"):
        cursor.take(Cursor.LONGEST + 1)


@pytest.mark.parametrize("size", [None, 10])
def test_a_skip_past_the_end_is_noticed(size: int | None) -> None:
    with pytest.raises(ModelUnreadable, match="cut short"):
        Cursor(io.BytesIO(bytes(10)), "x", size).skip(11)


def test_text_is_text() -> None:
    with pytest.raises(ModelUnreadable, match="damaged"):
        Cursor(io.BytesIO(b"\2\0\0\0\0\0\0\0\xff\xff"), "x").text(10, "a name")
