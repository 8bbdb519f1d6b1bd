"""The agent's operations, called directly on a directory that stands for the node."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hetctl.agent import directories, locks, watch_gang
from hetctl.agent.context import Context
from hetctl.agent.operations import OPERATIONS
from tests.agent.watched import Ended, Links, Server


class Node:
    """A directory that stands for a node.

    Arguments:
        root: The directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events: list[dict[str, Any]] = []
        self.body = bytearray()
        self.context = Context(str(root), send=self._send)

    def _send(self, frame: dict[str, Any], body: bytes) -> None:
        if "event" in frame:
            self.events.append(frame["event"])
        self.body += body

    def __call__(
        self, operation: str, arguments: dict[str, Any] | None = None, *body: bytes
    ) -> dict[str, Any]:
        """Perform one operation with a body."""
        self.context._blocks = lambda: iter(body)
        return OPERATIONS[operation].load()(self.context, arguments or {})

    def path(self, path: str) -> Path:
        """Return where a path of the node lies."""
        return Path(self.context.path(path))

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> Path:
        """Put a file on the node."""
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(mode)
        return place

    def names(self) -> list[str]:
        """Return every path on the node but the agent's own list of the directories it made."""
        record = self.path(directories.RECORD)
        found = [path for path in self.root.rglob("*") if path != record]
        alone = {
            path
            for path in record.parents
            if all(other in record.parents for other in path.rglob("*") if other != record)
        }
        return sorted(
            str(path.relative_to(self.root)) for path in found if not (record.exists() and path in alone)
        )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    root = tmp_path / "node"
    root.mkdir()
    found = Node(root)
    yield found
    locks.leave(found.context)


@pytest.fixture
def own_node(tmp_path: Path) -> Node:
    """This machine as the node; for what only looks."""
    del tmp_path
    return Node(Path("/"))


@pytest.fixture
def condition() -> Callable[..., None]:
    def wait(true: Callable[[], bool], seconds: float = 10.0) -> None:
        limit = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < limit, "the condition did not come true in time"
            time.sleep(0.01)

    return wait


class Worker:
    """A running stand-in for an RPC worker.

    Arguments:
        version: Protocol triple it answers with.
        address: Where it listens.
        port: 0 for any free one.
    """

    def __init__(
        self, version: tuple[int, int, int] = (7, 0, 0), address: str = "127.0.0.1", port: int = 0
    ) -> None:
        program = Path(__file__).with_name("rpc_worker.py")
        argv = [sys.executable, str(program), address, str(port), *map(str, version)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = address
        self.port = int(self.process.stdout.readline())

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def attach(self) -> socket.socket:
        """Connect as a head does, and stay."""
        link = socket.create_connection((self.address, self.port), 5)
        link.sendall(struct.pack("<BQ", 14, 24) + bytes(24))
        received = b""
        while len(received) < 8 + 28:
            received += link.recv(64)
        return link

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=10)


@pytest.fixture
def start_worker() -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(*arguments: Any, **options: Any) -> Worker:
        started.append(Worker(*arguments, **options))
        return started[-1]

    yield start
    for worker in started:
        worker.end()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.end()


@pytest.fixture
def connection() -> Iterator[Links]:
    made = Links()
    yield made
    made.end()


@pytest.fixture
def main_process() -> Iterator[subprocess.Popen[bytes]]:
    """The main process of the unit, as far as systemctl knows: it does nothing."""
    with subprocess.Popen(["sleep", "600"]) as made:
        yield made
        made.kill()


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, main_process: subprocess.Popen[bytes]) -> Ended:
    """Put a systemctl in front that writes down what it is told to end; return that so far."""
    record = tmp_path / "ended"
    program = tmp_path / "bin/systemctl"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncase "$1" in show) echo {main_process.pid} ;; *) echo "$@" >>{record} ;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(watch_gang, "SECOND_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(watch_gang, "HTTP_SECONDS", 0.3)
    return lambda: record.read_text().splitlines() if record.exists() else []
