"""Programs that operations run."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from hetctl.agent import process_groups
from hetctl.agent.failures import Failure

if TYPE_CHECKING:
    from tests.agent.conftest import Node


def test_a_program_is_told_of_in_full(node: Node) -> None:
    done = node("run", {"argv": ["sh", "-c", "cat; echo err >&2; exit 3"], "input": "hello"})
    assert (done["exit"], done["stdout"], done["stderr"]) == (3, "hello", "err\n")
    assert 0 <= done["seconds"] < 10


def test_a_signal_is_a_negative_status(node: Node) -> None:
    assert node("run", {"argv": ["sh", "-c", "kill -KILL $$"]})["exit"] == -9


def test_the_environment_is_known(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_LOGIN", "x")
    seen = node("run", {"argv": ["env"], "env": {"A": "b c"}})["stdout"].splitlines()
    assert "A=b c" in seen
    assert "LC_ALL=C.UTF-8" in seen
    assert not any(line.startswith("SECRET") for line in seen)


def test_only_the_end_of_long_output_is_kept_and_all_of_it_is_logged(node: Node) -> None:
    script = "i=0; while [ $i -lt 60000 ]; do echo line $i; i=$((i+1)); done; echo last >&2"
    done = node("run", {"argv": ["sh", "-c", script], "log": "/var/log/x/build.log"})
    assert len(done["stdout"]) == 256 << 10
    assert done["stdout"].endswith("line 59999\n")
    log = node.path("/var/log/x/build.log").read_text()
    assert log.startswith("line 0\n")
    assert "last\n" in log
    assert len(log.splitlines()) == 60001


def test_a_log_is_started_anew_and_is_no_link(node: Node) -> None:
    arguments = {"argv": ["echo", "x"], "log": "/log"}
    node("run", arguments)
    node("run", arguments)
    assert node.path("/log").read_text() == "x\n"
    node.path("/log").unlink()
    node.path("/log").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        node("run", arguments)


def test_events_are_few_and_the_last_line_is_among_them(node: Node) -> None:
    script = (
        "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; printf 'progress 1\\rprogress 2\\r'"
    )
    done = node("run", {"argv": ["sh", "-c", script], "events": True})
    assert len(node.events) <= done["seconds"] * 10 + 2
    assert node.events[-1] == {"line": "progress 2"}


def test_input_that_nobody_reads_does_no_harm(node: Node) -> None:
    assert node("run", {"argv": ["true"], "input": "x" * 500_000})["exit"] == 0


def test_much_input_and_much_output_do_not_block_each_other(node: Node) -> None:
    text = "0123456789abcdef\n" * 60_000
    assert node("run", {"argv": ["cat"], "input": text})["stdout"] == text[-(256 << 10) :]


def test_a_child_left_behind_is_ended(node: Node) -> None:
    done = node("run", {"argv": ["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"]})
    pid = int(done["stdout"])
    status = f"/proc/{pid}/status"
    limit = time.monotonic() + 5
    while os.path.exists(status) and "zombie" not in open(status).read():  # noqa: PTH110,PTH123,SIM115 - /proc
        assert time.monotonic() < limit
    assert not process_groups._groups


@pytest.mark.parametrize("argv", [["/none"], ["none-such-program"], ["/etc/passwd"]])
def test_what_cannot_be_started_is_said(node: Node, argv: list[str]) -> None:
    with pytest.raises(Failure, match="cannot be started"):
        node("run", {"argv": argv})


@pytest.mark.parametrize(
    "arguments", [{}, {"argv": []}, {"argv": "true"}, {"argv": [1]}, {"argv": ["x"], "env": {"A": 1}}]
)
def test_senseless_requests_are_refused(node: Node, arguments: dict[str, object]) -> None:
    with pytest.raises(Failure) as caught:
        node("run", arguments)
    assert caught.value.kind == "bad-request"
