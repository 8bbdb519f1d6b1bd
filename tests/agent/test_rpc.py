"""Probing an RPC worker without disturbing it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hetctl.agent import rpc
from hetctl.agent.failures import Failure, Interruption

if TYPE_CHECKING:
    from tests.agent.conftest import Node, Worker

Start = Callable[..., "Worker"]
Condition = Callable[[Callable[[], bool]], None]


def ask(node: Node, worker: Worker, **more: object) -> dict[str, object]:
    return node("probe_rpc", {"address": worker.address, "port": worker.port, **more})


def test_a_free_worker_tells_version_and_devices(own_node: Node, start_worker: Start) -> None:
    worker = start_worker((6, 1, 2))
    for _ in range(5):
        assert ask(own_node, worker) == {
            "version": [6, 1, 2],
            "devices": [
                {"free": 11_000_000_000, "total": 11_811_160_064},
                {"free": 15_000_000_000, "total": 17_179_869_184},
            ],
        }
    assert worker.alive


def test_a_busy_worker_is_left_alone(
    own_node: Node, start_worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start_worker()
    with worker.attach():

        def never(*_: object, **__: object) -> socket.socket:
            raise AssertionError("a worker with a client is not connected to")

        monkeypatch.setattr(socket, "create_connection", never)
        assert ask(own_node, worker) == {"busy": True, "peer": "127.0.0.1"}
    assert worker.alive


def keepers() -> list[int]:
    """Return the processes that hold an unanswered connection for this test."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                command = (path / "cmdline").read_bytes()
            except OSError:
                continue
            if rpc._KEEPER.encode() in command:
                found.append(int(path.name))
    return found


@pytest.mark.parametrize("end", ["timeout", "interruption"])
def test_a_client_that_came_in_between_costs_nobody_anything(
    own_node: Node, start_worker: Start, monkeypatch: pytest.MonkeyPatch, condition: Condition, end: str
) -> None:
    """The greeting is unanswered when the probe ends: closing the socket then would kill the worker later."""
    worker = start_worker()
    before = set(keepers())
    with worker.attach():
        monkeypatch.setattr(rpc, "attached_client", lambda *_: None)
        if end == "timeout":
            assert ask(own_node, worker, timeout=0.3)["busy"] is True
        else:

            def interrupted(_: socket.socket) -> dict[str, object]:
                _.sendall(b"\x0e\x18" + bytes(7) + bytes(24))
                raise Interruption("deadline", "late")

            monkeypatch.setattr(rpc, "_ask", interrupted)
            with pytest.raises(Interruption):
                ask(own_node, worker)
        time.sleep(0.3)  # long enough for one that cannot wait to have given up
        assert set(keepers()) - before, "somebody still holds the connection"
    monkeypatch.undo()
    condition(lambda: set(keepers()) <= before)
    for kept in rpc._kept:
        kept.wait(5)
    assert worker.alive, "the head left, the worker answered the probe, and lives"
    assert ask(own_node, worker)["version"] == [7, 0, 0]


def test_the_stand_in_dies_as_the_real_one_does(start_worker: Start, condition: Condition) -> None:
    """Without care a probe kills a worker; if this stops being so, the test above proves nothing."""
    worker = start_worker()
    with worker.attach():
        rude = socket.create_connection((worker.address, worker.port))
        rude.sendall(b"\x0e\x18" + bytes(7) + bytes(24))
        rude.close()
    condition(lambda: not worker.alive)


def test_nobody_there_is_a_failure(own_node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Failure, match="no RPC worker") as caught:
        own_node("probe_rpc", {"address": "127.0.0.1", "port": port})
    assert caught.value.why


@pytest.mark.parametrize("says", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\x02" + bytes(7) + b"xy"])
def test_something_else_there_is_a_failure(own_node: Node, says: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = os.fork()
        if not child:
            link, _ = server.accept()
            link.recv(100)
            link.sendall(says)
            link.close()
            os._exit(0)
        began = time.monotonic()
        with pytest.raises(Failure, match="no RPC worker"):
            own_node("probe_rpc", {"address": "127.0.0.1", "port": server.getsockname()[1], "timeout": 5})
        assert time.monotonic() - began < 4
        os.waitpid(child, 0)
