from __future__ import annotations

import threading

import pytest

from hetctl.engine.parallel import for_each
from hetctl.errors import NodeUnreachable


def test_results_keep_the_given_order_and_errors_their_node() -> None:
    def do(node: str, value: int) -> int:
        if value < 0:
            raise NodeUnreachable("no", where=node)
        return value * 2

    outcomes = for_each({"c": 1, "a": -1, "b": 2}, do)
    assert list(outcomes.results.items()) == [("c", 2), ("b", 4)]
    assert list(outcomes.errors) == ["a"]


def test_all_at_once() -> None:
    meeting = threading.Barrier(5, timeout=20)
    assert len(for_each({str(index): index for index in range(5)}, lambda *_: meeting.wait()).results) == 5


def test_no_more_at_once_than_allowed() -> None:
    guard, now, most = threading.Lock(), 0, 0

    def do(_node: str, _value: int) -> None:
        nonlocal now, most
        with guard:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.005)
        with guard:
            now -= 1

    for_each({str(index): index for index in range(20)}, do, at_once=3)
    assert most <= 3


def test_a_bug_is_raised_not_taken_for_an_unreachable_node() -> None:
    def do(_node: str, _value: int) -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        for_each({"a": 1}, do)


def test_nothing_to_do() -> None:
    assert for_each({}, lambda *_: None).results == {}
