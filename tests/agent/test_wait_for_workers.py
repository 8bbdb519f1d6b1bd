"""The script a head runs before it starts."""

from __future__ import annotations

import ast
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hetctl.agent import wait_for_workers
from hetctl.agent.wait_for_workers import attached_client, is_local, parse_clients, parse_endpoint

if TYPE_CHECKING:
    from tests.agent.conftest import Worker

Start = Callable[..., "Worker"]
SCRIPT = Path(wait_for_workers.__file__)


def wait(*arguments: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", str(SCRIPT), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout)


def end(worker: Worker) -> str:
    return f"{worker.address}:{worker.port}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_the_script_stands_alone() -> None:
    imported = {
        name.name.split(".")[0]
        for part in ast.walk(ast.parse(SCRIPT.read_text()))
        if isinstance(part, ast.Import)
        for name in part.names
    } | {
        part.module or ""
        for part in ast.walk(ast.parse(SCRIPT.read_text()))
        if isinstance(part, ast.ImportFrom)
    }
    assert imported <= set(sys.stdlib_module_names)


def test_all_workers_there_is_success(start_worker: Start) -> None:
    workers = [start_worker(), start_worker()]
    done = wait("--deadline", "10", "--expect", "7.0.0", *map(end, workers))
    assert (done.returncode, done.stderr) == (0, "")
    assert all(worker.alive for worker in workers)


def test_a_worker_that_comes_late_is_waited_for(start_worker: Start) -> None:
    port = free_port()
    began = time.monotonic()
    timer = threading.Timer(0.7, lambda: start_worker(port=port))
    timer.start()
    done = wait("--deadline", "20", "--expect", "7.0.0", f"127.0.0.1:{port}")
    timer.join()
    assert done.returncode == 0
    assert time.monotonic() - began > 0.6


def test_a_missing_worker_is_named(start_worker: Start) -> None:
    port = free_port()
    done = wait("--deadline", "0.5", "--expect", "7.0.0", end(start_worker()), f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "refused" in done.stderr


def test_another_protocol_is_named(start_worker: Start) -> None:
    worker = start_worker((6, 0, 0))
    done = wait("--deadline", "0.5", "--expect", "7.0.0", end(worker))
    assert done.returncode == 1
    assert end(worker) in done.stderr
    assert "6.0.0" in done.stderr
    assert worker.alive


def test_a_busy_worker_is_waited_for_and_not_disturbed(start_worker: Start) -> None:
    worker = start_worker()
    link = worker.attach()
    timer = threading.Timer(0.7, link.close)
    timer.start()
    done = wait("--deadline", "20", "--expect", "7.0.0", end(worker))
    timer.join()
    assert done.returncode == 0
    with worker.attach():
        done = wait("--deadline", "0.5", "--expect", "7.0.0", end(worker))
    assert done.returncode == 1
    assert "busy" in done.stderr
    assert worker.alive


def test_an_answer_is_awaited_when_the_client_cannot_be_seen(
    start_worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a worker on another machine."""
    worker = start_worker()
    monkeypatch.setattr(wait_for_workers, "attached_client", lambda *_: None)
    link = worker.attach()
    timer = threading.Timer(0.7, link.close)
    timer.start()
    assert wait_for_workers.wait([(worker.address, worker.port)], (7, 0, 0), 20) == ""
    timer.join()
    assert worker.alive


@pytest.mark.parametrize(
    "arguments", [[], ["--expect", "7.0", "x:1"], ["--expect", "7.0.0"], ["--expect", "7.0.0", "x:y"]]
)
def test_wrong_usage_is_told_apart(arguments: list[str]) -> None:
    assert wait(*arguments).returncode == 2


def test_endpoints_are_read() -> None:
    assert parse_endpoint("10.0.0.6:20052") == ("10.0.0.6", 20052)
    assert parse_endpoint("[fd00::6]:20052") == ("fd00::6", 20052)


def test_clients_are_read_from_proc() -> None:
    lines = [
        "  sl  local_address rem_address   st",
        "   0: 0600000A:4E54 00000000:0000 0A x",
        "   1: 0600000A:4E54 0500000A:9C40 01 x",
        "   2: 0600000A:4E54 0700000A:9C40 08 x",
        "   3: 0600000A:4E54 0800000A:9C40 06 x",
        "   4: 0600000A:4E55 0900000A:9C40 01 x",
        "   5: 0000000000000000FFFF00000600000A:4E54 0000000000000000FFFF00000A00000A:9C40 01 x",
    ]
    assert parse_clients("\n".join(lines), 20052) == [("10.0.0.5", 1), ("10.0.0.10", 1), ("10.0.0.7", 8)]


def test_of_other_machines_nothing_is_claimed(start_worker: Start) -> None:
    worker = start_worker()
    with worker.attach():
        assert attached_client("127.0.0.1", worker.port) == ("127.0.0.1", 1)
        assert attached_client("192.0.2.1", worker.port) is None
    assert is_local("127.0.0.1")
    assert not is_local("192.0.2.1")
