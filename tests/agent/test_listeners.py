"""Who listens where, from /proc."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hetctl.agent.listeners import parse_address, parse_table, parse_unit

if TYPE_CHECKING:
    from tests.agent.conftest import Node


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0100007F:1F90", ("127.0.0.1", 8080)),
        ("00000000:0016", ("0.0.0.0", 22)),
        ("0600000A:4E54", ("10.0.0.6", 20052)),
        ("00000000000000000000000000000000:0016", ("::", 22)),
        ("00000000000000000000000001000000:0016", ("::1", 22)),
        ("0000000000000000FFFF00000600000A:4E54", ("::ffff:10.0.0.6", 20052)),
    ],
)
def test_addresses_of_proc_are_read(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


def test_a_table_of_proc_is_read() -> None:
    text = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0600000A:4E54 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 777 1 0\n"
        "   1: 0600000A:4E54 0500000A:9C40 01 00000000:00000000 00:00000000 00000000 0 0 778 1 0\n"
    )
    listening, attached = parse_table(text)
    assert (listening.address, listening.port, listening.state, listening.inode) == (
        "10.0.0.6",
        20052,
        0x0A,
        777,
    )
    assert (attached.peer_address, attached.peer_port, attached.state) == ("10.0.0.5", 40000, 0x01)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/system.slice/ssh.service\n", "ssh.service"),
        ("0::/user.slice/user-0.slice/session-3.scope\n", "session-3.scope"),
        ("0::/system.slice/docker.service/abc\n", "docker.service"),
        ("12:pids:/x.service\n1:name=systemd:/system.slice/a.service\n0::/\n", "a.service"),
        ("0::/\n", None),
        ("12:cpu,cpuacct:/a.service\n", None),
        ("0::/machine.slice/x.service:sub/payload\n", None),
    ],
)
def test_the_unit_is_the_innermost_name_in_the_control_group(text: str, unit: str | None) -> None:
    assert parse_unit(text) == unit


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_listener_is_found_with_its_process(own_node: Node, host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        (state,) = own_node("observe", {"objects": [{"type": "listener", "port": port}]})["states"]
        (owner,) = state["owners"]
        assert (owner["address"], owner["port"], owner["pid"]) == (host, port, os.getpid())
        assert owner["exe"] == os.path.realpath("/proc/self/exe")
        assert owner["cmdline"] == Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0")
        assert owner in [{**entry, "cmdline": owner["cmdline"]} for entry in own_node("facts")["listeners"]]
    assert own_node("observe", {"objects": [{"type": "listener", "port": port}]})["states"] == [
        {"owners": []}
    ]


def test_a_socket_shared_with_a_child_has_both_as_owners(own_node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[server.fileno()])
        (state,) = own_node("observe", {"objects": [{"type": "listener", "port": port}]})["states"]
        child.communicate(timeout=10)
    assert {owner["pid"] for owner in state["owners"]} == {os.getpid(), child.pid}
