"""The lock of a node within one process; `tests/transport/test_session.py` has it between several."""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING

import pytest

from hetctl.agent import locks
from hetctl.agent.context import Context
from hetctl.agent.failures import Failure

if TYPE_CHECKING:
    from tests.agent.conftest import Node


@pytest.fixture
def other(node: Node) -> Context:
    """Another session on the same node: a flock belongs to the open file, so one process can be two."""
    return Context(str(node.root))


def test_looking_at_the_lock_does_not_take_it(
    node: Node, other: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    node("lock", {"holder": {"who": "anna"}})

    def never(*_: object) -> None:
        raise AssertionError("to look is not to lock")

    monkeypatch.setattr(fcntl, "flock", never)
    found = locks.holder(other)
    assert found is not None
    assert found["holder"]["who"] == "anna"
    assert node("marks")["lock"]["holder"]["pid"] == os.getpid()


def test_a_released_lock_is_free_whatever_its_file_says(node: Node, other: Context) -> None:
    node("write_members", {"cluster": "den", "members": {}})
    node("lock", {"holder": {"who": "anna"}})
    locks.leave(node.context)
    assert json.loads(node.path("/run/hetctl/lock").read_text())["who"] == "anna"
    assert locks.holder(other) is None
    assert locks.lock(other, {"holder": {"who": "bert"}}) == {"held": True}
    locks.leave(other)


def test_the_holder_is_told_even_when_it_has_only_just_taken_it(node: Node, other: Context) -> None:
    node("lock", {"holder": {"who": "anna"}})
    node.path("/run/hetctl/lock").write_text("")
    with pytest.raises(Failure) as caught:
        locks.lock(other, {"holder": {}})
    assert caught.value.kind == "locked"
    assert caught.value.as_json()["holder"] == {}


def test_nothing_is_left_when_nothing_of_hetctl_is(node: Node) -> None:
    node("lock", {"holder": {}})
    locks.leave(node.context)
    assert node.names() == ["run"]


def test_a_lock_file_that_was_removed_in_between_is_no_lock(
    node: Node, other: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One opens the file, the holder removes it at its end, a third makes a new one: only that counts."""
    flock = fcntl.flock
    raced: list[bool] = []

    def race(descriptor: int, how: int) -> None:
        flock(descriptor, how)
        if not raced:
            raced.append(True)
            node.path("/run/hetctl/lock").unlink()
            assert locks.lock(other, {"holder": {"who": "bert"}}) == {"held": True}

    monkeypatch.setattr(fcntl, "flock", race)
    with pytest.raises(Failure) as caught:
        node("lock", {"holder": {"who": "anna"}})
    assert caught.value.as_json()["holder"]["who"] == "bert"
    locks.leave(other)
