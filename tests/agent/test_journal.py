"""Lines of the journal; `test_on_hosts.py` has the real one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hetctl.agent.failures import Failure
from hetctl.agent.journal import command, parse_line

if TYPE_CHECKING:
    from tests.agent.conftest import Node


def entry(message: Any) -> bytes:
    return json.dumps(
        {"__CURSOR": "s=1", "__REALTIME_TIMESTAMP": "1700000000123456", "MESSAGE": message}
    ).encode()


@pytest.mark.parametrize(
    ("message", "text"), [("hello", "hello"), ([104, 105, 255], "hi\ufffd"), (None, ""), ("zwölf", "zwölf")]
)
def test_a_line_has_time_message_and_cursor(message: Any, text: str) -> None:
    assert parse_line(entry(message)) == {"time": 1700000000.123456, "message": text, "cursor": "s=1"}


@pytest.mark.parametrize(
    "line", [b"", b"-- No entries --", b"{}", b"[]", b'{"__REALTIME_TIMESTAMP":"x"}', b"null"]
)
def test_anything_else_is_no_line(line: bytes) -> None:
    assert parse_line(line) is None


def test_the_command_says_what_was_asked() -> None:
    arguments = {"unit": "a.service", "lines": 5, "after_cursor": "s=1;i=2", "grep": "-x", "follow": True}
    argv = command("journalctl", arguments)
    assert {"--lines=5", "--after-cursor=s=1;i=2", "--grep=-x", "--follow", "--unit=a.service"} <= set(argv)
    argv = command("journalctl", {"unit": "a.service", "invocation": "0c1d"})
    assert argv[-3:] == ["_SYSTEMD_INVOCATION_ID=0c1d", "+", "INVOCATION_ID=0c1d"]


@pytest.mark.parametrize(
    "more", [{"lines": -1}, {"lines": 1 << 30}, {"invocation": "x y"}, {"invocation": ""}, {"grep": 1}]
)
def test_senseless_requests_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(Failure) as caught:
        command("journalctl", {"unit": "a.service", **more})
    assert caught.value.kind == "bad-request"


def stand_in(node: Node, text: str) -> None:
    node.write("/usr/bin/journalctl", f"#!/bin/sh\n{text}\n", 0o755)


def test_lines_come_at_once_or_as_events(node: Node) -> None:
    node.write("/lines", entry("one") + b"\n" + entry("two") + b"\n")
    stand_in(node, f"cat {node.root}/lines")
    lines = node("journal", {"unit": "a.service"})["lines"]
    assert [line["message"] for line in lines] == ["one", "two"]
    assert node("journal", {"unit": "a.service", "follow": True}) == {"lines": []}
    assert [event["message"] for event in node.events] == ["one", "two"]


def test_nothing_found_by_grep_is_no_error_and_a_failure_is(node: Node) -> None:
    stand_in(node, "exit 1")
    assert node("journal", {"unit": "a.service", "grep": "x"}) == {"lines": []}
    stand_in(node, "echo no permission >&2; exit 1")
    with pytest.raises(Failure) as caught:
        node("journal", {"unit": "a.service"})
    assert caught.value.why == "no permission"
