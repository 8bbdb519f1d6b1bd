"""Which plain scalar is a number: YAML's 1.2 core schema, in one table.

What people trip over: here `on` is text, `0644` is 644, `1.10` is 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

LONGEST_NUMBER: Final = 40
"""Digits of a number that still can be meant as one."""

_CORE: Final[tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...]] = (
    (re.compile(r"|~|null|Null|NULL"), lambda _: None),
    (re.compile(r"true|True|TRUE"), lambda _: True),
    (re.compile(r"false|False|FALSE"), lambda _: False),
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"0o[0-7]+"), lambda text: int(text, 0)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: int(text, 0)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)"), lambda text: float("-inf" if text[0] == "-" else "inf")),
    (re.compile(r"\.(nan|NaN|NAN)"), lambda _: float("nan")),
)


def resolve(text: str) -> Any:
    """Return what a plain (unquoted) scalar means: None, bool, int, float or the text itself.

    Raises:
        OverflowError: It looks like a number of more than LONGEST_NUMBER characters.
    """
    for pattern, convert in _CORE:
        if pattern.fullmatch(text):
            if len(text) > LONGEST_NUMBER:
                raise OverflowError(text[:LONGEST_NUMBER])
            return convert(text)
    return text
