"""TCP keepalive, switched on for another process."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hetctl.agent import keep_alive
from hetctl.agent.keep_alive import IDLE_SECONDS, INTERVAL_SECONDS, PROBES, connected, kernel_form, listening

SCRIPT = Path(keep_alive.__file__)
OPTIONS = [int(socket.TCP_KEEPIDLE), int(socket.TCP_KEEPINTVL), int(socket.TCP_KEEPCNT)]

PROGRAM = f"""
import socket, sys
def options(link):
    tcp = [link.getsockopt(socket.IPPROTO_TCP, option) for option in {OPTIONS}]
    print(link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), *tcp, flush=True)
if sys.argv[1] == "listen":
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    link, _ = server.accept()
else:
    link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    print("connected", flush=True)
    sys.stdin.readline()
options(link)
sys.stdin.readline()
"""
"""A process that knows nothing of keepalive and says what its connection is set to."""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as processes:

        def begin(*arguments: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            processes.enter_context(process)
            processes.callback(process.kill)
            return process

        yield begin


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def run(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={**os.environ, **(environment or {})},
    )


needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="the sockets of other processes are root's to reach"
)
ON = f"1 {IDLE_SECONDS} {INTERVAL_SECONDS} {PROBES}"


def test_the_script_stands_alone() -> None:
    tree = ast.parse(SCRIPT.read_text())
    names = {name.name for part in ast.walk(tree) if isinstance(part, ast.Import) for name in part.names}
    names |= {part.module or "" for part in ast.walk(tree) if isinstance(part, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)


@needs_root
def test_what_a_listening_socket_accepts_is_probed(start: Start) -> None:
    process = start("listen")
    port = line(process)
    done = run("--listening", port, environment={"MAINPID": str(process.pid)})
    assert (done.returncode, done.stderr) == (0, "")
    with socket.create_connection(("127.0.0.1", int(port)), 5):
        assert line(process) == ON


@needs_root
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_connection_there_is_gets_probed(start: Start, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        port = str(server.getsockname()[1])
        process = start(address, port)
        assert line(process) == "connected"
        endpoint = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        done = run("--process", str(process.pid), "--connected", "127.0.0.1:1", endpoint)
        assert (done.returncode, done.stderr) == (0, "")
        go_on(process)
        assert line(process) == ON


@needs_root
def test_other_connections_are_left_alone(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        process = start("127.0.0.1", port)
        assert line(process) == "connected"
        done = run("--process", str(process.pid), "--deadline", "0", "--connected", "127.0.0.1:1")
        assert done.returncode == 1
        assert "has no such socket" in done.stderr
        go_on(process)
        assert line(process).startswith("0 ")


@needs_root
def test_a_socket_that_is_not_open_yet_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    waiting = subprocess.Popen(
        [sys.executable, "-I", str(SCRIPT), "--process", str(os.getpid()), "--listening", port],
        stderr=subprocess.PIPE,
    )
    with waiting, socket.create_server(("127.0.0.1", int(port))) as late:
        assert waiting.wait(20) == 0
        assert late.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def test_a_process_that_is_gone_is_not_waited_for(start: Start) -> None:
    process = start("listen")
    port = line(process)
    process.kill()
    process.wait(10)
    done = run("--process", str(process.pid), "--listening", port, "--deadline", "600")
    assert done.returncode == 1
    assert "a peer that loses power will not be noticed" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--listening", "1"], ["--process", "1"]])
def test_wrong_usage_is_told_apart(arguments: list[str]) -> None:
    assert run(*arguments, environment={"MAINPID": ""}).returncode == 2


def test_sockets_are_found_as_the_kernel_writes_them() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listening(port) == {str(os.fstat(server.fileno()).st_ino)}
        with socket.create_connection(("127.0.0.1", port)) as link:
            assert connected([f"127.0.0.1:{port}"]) == {str(os.fstat(link.fileno()).st_ino)}
    assert listening(port) == set()


def test_an_address_has_two_forms_where_ipv6_sockets_serve_ipv4() -> None:
    swapped = sys.byteorder == "little"
    mapped = "0000000000000000FFFF00000600000A" if swapped else "00000000000000000000FFFF0A000006"
    assert kernel_form("10.0.0.6", 20052) == [
        f"{'0600000A' if swapped else '0A000006'}:4E54",
        f"{mapped}:4E54",
    ]
