"""Facts, from this machine and from trees that look like others."""

from __future__ import annotations

import os
import platform
import socket
from typing import TYPE_CHECKING

import pytest

from hetctl.agent.node_facts import TOOLS, parse_assignments, parse_cpu, parse_memory

if TYPE_CHECKING:
    from tests.agent.conftest import Node

KEYS = {
    "hostname", "machine_id", "boot_id", "kernel", "os_release", "architecture", "python", "glibc", "pid1",
    "uid", "cpu", "memory", "addresses", "listeners", "disks", "tools", "salt", "groups",
}  # fmt: skip


def test_this_machine_is_described(own_node: Node) -> None:
    facts = own_node("facts", {"paths": ["/", "/no/such/path/yet"]})
    assert set(facts) == KEYS
    assert facts["hostname"] == socket.gethostname()
    assert facts["python"] == platform.python_version()
    assert facts["uid"] == os.geteuid()
    assert facts["cpu"]["threads"] >= facts["cpu"]["cores"] >= 1
    assert facts["memory"]["total"] > facts["memory"]["available"] > 0
    assert facts["disks"]["/"]["total"] >= facts["disks"]["/"]["free"] > 0
    assert facts["disks"]["/no/such/path/yet"]["total"] == facts["disks"]["/"]["total"]
    assert set(facts["tools"]) == set(TOOLS)
    assert facts["tools"]["python3"]["version"].startswith("Python 3")
    assert "root" in facts["groups"]
    assert any(entry["interface"] == "lo" for entry in facts["addresses"])


def test_an_empty_machine_has_no_facts_and_no_error(node: Node) -> None:
    facts = node("facts")
    assert set(facts) == KEYS
    assert (facts["machine_id"], facts["salt"], facts["os_release"], facts["listeners"]) == ("", None, {}, [])
    assert facts["cpu"] == {"model": "", "flags": [], "cores": 0, "threads": 0}
    assert set(facts["tools"].values()) == {None}


def test_a_tool_that_hangs_or_fails_has_no_version(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetctl.agent.node_facts.TOOL_SECONDS", 0.3)
    node.write("/usr/bin/gcc", "#!/bin/sh\nexec sleep 300\n", 0o755)
    node.write("/usr/bin/cmake", "#!/bin/sh\nexit 1\n", 0o755)
    node.write("/usr/local/bin/ninja", "#!/bin/sh\necho 1.11.1\necho more\n", 0o755)
    node.write("/usr/bin/make", "not executable")
    tools = node("facts")["tools"]
    assert tools["gcc"] == {"path": "/usr/bin/gcc", "version": ""}
    assert tools["cmake"] == {"path": "/usr/bin/cmake", "version": ""}
    assert tools["ninja"] == {"path": "/usr/local/bin/ninja", "version": "1.11.1"}
    assert tools["make"] is None


def test_the_salt_is_told_once_it_exists(node: Node) -> None:
    salt = node("salt")["salt"]
    assert node("facts")["salt"] == salt


def test_os_release_is_read_with_and_without_quotes() -> None:
    text = "# comment\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nX='y'\nEMPTY=\nrubbish\n"
    assert parse_assignments(text) == {
        "PRETTY_NAME": "Debian GNU/Linux 12 (bookworm)", "ID": "debian", "X": "y", "EMPTY": "",
    }  # fmt: skip


X86 = "\n\n".join(
    f"processor\t: {n}\nmodel name\t: AMD Ryzen 9\nphysical id\t: 0\ncore id\t\t: {n % 2}\n"
    "flags\t\t: sse avx2 avx\npower management: ts"
    for n in range(4)
)
ARM = "\n\n".join(f"processor\t: {n}\nFeatures\t: fp asimd sve\n" for n in range(4)) + "\n\nModel\t: Pi 5\n"


def test_processors_are_counted_by_thread_and_by_core() -> None:
    assert parse_cpu(X86) == {
        "model": "AMD Ryzen 9",
        "flags": ["avx", "avx2", "sse"],
        "cores": 2,
        "threads": 4,
    }
    assert parse_cpu(ARM) == {"model": "", "flags": ["asimd", "fp", "sve"], "cores": 4, "threads": 4}


def test_two_sockets_have_cores_of_the_same_number() -> None:
    text = X86 + "\n\n" + X86.replace("physical id\t: 0", "physical id\t: 1")
    assert parse_cpu(text)["cores"] == 4


def test_memory_is_in_bytes() -> None:
    assert parse_memory("MemTotal:       1000 kB\nMemAvailable:    900 kB\nHugePages_Total: 0\n") == {
        "total": 1_024_000, "available": 921_600,
    }  # fmt: skip


def test_a_directory_that_others_may_not_pass_is_named(node: Node) -> None:
    node.path("/data/private/models").mkdir(parents=True)
    node.path("/data").chmod(0o755)
    node.path("/data/private").chmod(0o700)
    asked = {"paths": ["/data/private/models/den", "/data/new"]}
    disks = node("facts", asked)["disks"]
    assert disks["/data/private/models/den"]["closed"] == "/data/private"
    assert disks["/data/new"]["closed"] == ""
    assert disks["/data/new"]["noexec"] is False
