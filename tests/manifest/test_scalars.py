import math
from typing import Any

import pytest

from hetctl.manifest.scalars import resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None),
        ("true", True), ("True", True), ("TRUE", True), ("false", False), ("FALSE", False),
        ("0", 0), ("12", 12), ("-3", -3), ("+4", 4), ("0644", 644), ("0o17", 15), ("0x1F", 31),
        ("1.10", 1.1), ("1.", 1.0), (".5", 0.5), ("-1e3", -1000.0), ("6.02E+23", 6.02e23),
        (".inf", math.inf), ("-.INF", -math.inf),
    ],
)  # fmt: skip
def test_the_core_schema(text: str, value: Any) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


@pytest.mark.parametrize(
    "text",
    ["yes", "no", "on", "off", "y", "n", "nUll", "tRue", "10:30", "1_000", "0b1", "1.2.3", "0x", "0o8", "+",
     ".", "..", "-", "2026-12-01", "16GiB", "inf", "nan", "1e", "٣"],
)  # fmt: skip
def test_text_stays_text(text: str) -> None:
    assert resolve(text) == text


def test_not_a_number() -> None:
    assert math.isnan(resolve(".nan"))


@pytest.mark.parametrize("text", ["1" * 41, "0x" + "f" * 60, "1" * 5000 + ".5"])
def test_endless_numbers_are_refused(text: str) -> None:
    with pytest.raises(OverflowError):
        resolve(text)
