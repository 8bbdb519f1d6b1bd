from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetctl.report.figures import GIB, byte_size, columns, counted, duration, estimate, gibibytes


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (278 * 1024**2, "278 MiB"),
        (int(13.5 * GIB), "13.5 GiB"),
        (2 * 1024**4, "2.0 TiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert byte_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (70, "70 s"), (240, "4 min"), (4800, "1 h 20 min")],
)
def test_times(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "about 1 s"), (7, "about 7 s"), (71.3, "about 70 s"), (118, "about 120 s"), (250, "about 4 min")],
)
def test_estimates_pretend_no_precision(seconds: float, text: str) -> None:
    assert estimate(seconds) == text


def test_gibibytes_and_counts() -> None:
    assert gibibytes(int(1.26 * GIB)) == "1.3"
    assert (counted(1, "node"), counted(0, "node")) == ("1 node", "0 nodes")
    assert counted(2, "error is", "errors are") == "2 errors are"


def test_numbers_line_up_under_the_start_of_their_heading() -> None:
    assert columns([["card", "weights"], ["a", "13.5"], ["bbbbb", "8.6"]], right=frozenset({1})) == [
        "card   weights",
        "a      13.5",
        "bbbbb   8.6",
    ]


@given(st.lists(st.lists(st.text("abc", max_size=5), max_size=4)))
def test_columns_line_up_and_end_without_spaces(rows: list[list[str]]) -> None:
    lines = columns(rows)
    assert len(lines) == len(rows)
    assert all(line == line.rstrip() for line in lines)
    starts = [
        0,
        *(max((len(row[index]) for row in rows if index < len(row)), default=0) for index in range(3)),
    ]
    for row, line in zip(rows, lines, strict=True):
        for index, cell in enumerate(row):
            start = sum(starts[1 : index + 1]) + 2 * index
            assert line[start : start + len(cell)] == cell or not cell
