"""The agent on real hosts: systemd, journal, nftables, sudo, faults of the network."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from hetctl.errors import (
    DeadlineExceeded,
    LockHeld,
    NodeUnreachable,
    NodeUnsuitable,
    OperationFailed,
    SessionLost,
)
from hetctl.transport.quoting import unit_command, unit_environment, unit_value
from hetctl.transport.session import AgentSession, open_sessions
from hetctl.transport.ssh import SSHTransport
from tests.lab.seed import SUDO_PASSWORD, SUDO_USER

if TYPE_CHECKING:
    from tests.lab.fixtures import LabFactory
    from tests.lab.host import Host
    from tests.lab.hosts import Lab

HARD_WORDS = [
    "",
    " ",
    "a b",
    "it's",
    '"',
    "\\",
    "$HOME",
    "${HOME}",
    "$$",
    "%n",
    "%%",
    ";",
    "#",
    "äöü",
    "*",
    "{a}",
    "-x",
]


@pytest.fixture(scope="module")
def hosts(lab: LabFactory) -> Lab:
    return lab("atlas", "pascal")


def transport(host: Host, user: str = "root", **options: Any) -> SSHTransport:
    """Return a transport that no configuration of whoever runs the tests gets into."""
    (host.directory / "no_ssh_config").write_text("")
    arguments: dict[str, Any] = {
        "identity_files": [host.identity],
        "known_hosts": host.known_hosts,
        **options,
    }
    return SSHTransport(host.address, user, config_file=host.directory / "no_ssh_config", **arguments)


Opener = Callable[..., AgentSession]


@pytest.fixture
def start() -> Iterator[Opener]:
    opened: list[AgentSession] = []

    def begin(host: Host, *, read_only: bool = False, **options: Any) -> AgentSession:
        session = AgentSession(host.name, transport(host, **options), read_only=read_only)
        session.open()
        opened.append(session)
        return session

    yield begin
    for session in opened:
        session.close()


def put(session: AgentSession, path: str, text: str, mode: int = 0o644) -> None:
    session.call("put_file", {"path": path, "mode": mode, "uid": 0, "gid": 0}, upload=[text.encode()])


def unit_state(session: AgentSession, name: str) -> dict[str, Any]:
    state: dict[str, Any] = session.call("observe", {"objects": [{"type": "unit", "name": name}]})["states"][
        0
    ]
    return state


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "the condition did not come true in time"
        time.sleep(0.05)


def test_a_host_tells_its_facts(hosts: Lab, start: Opener) -> None:
    atlas = hosts["atlas"]
    session = start(atlas, read_only=True)
    facts = session.call("facts", {"paths": ["/var/lib"]})
    assert (facts["hostname"], facts["pid1"], facts["uid"]) == ("atlas", "systemd", 0)
    assert facts["machine_id"] == atlas.exec(["cat", "/etc/machine-id"]).stdout.strip()
    assert atlas.address in {entry["address"] for entry in facts["addresses"]}
    (ssh,) = [entry for entry in facts["listeners"] if entry["port"] == 22 and ":" not in entry["address"]]
    assert (ssh["unit"], ssh["exe"]) == ("ssh.service", "/usr/sbin/sshd")
    assert session.peer_address == atlas.address
    other = hosts["pascal"].address
    assert session.call("routes", {"destinations": [other]})["sources"][other] == atlas.address


def test_a_service_lives_and_is_described(hosts: Lab, start: Opener) -> None:
    session = start(hosts["atlas"])
    name = "hetctl-test.service"
    script = (
        "import sys, os, json, time;"
        "print(json.dumps([sys.argv[1:], os.environ['WORDS']]), flush=True); time.sleep(600)"
    )
    put(
        session,
        f"/etc/systemd/system/{name}",
        f"[Unit]\nDescription={unit_value('100% a test')}\n[Service]\nType=exec\nRestart=always\n"
        f"Environment={unit_environment('WORDS', ' '.join(HARD_WORDS))}\n"
        f"ExecStart={unit_command(['/usr/bin/python3', '-c', script, *HARD_WORDS])}\n"
        "[Install]\nWantedBy=multi-user.target\n",
    )
    for action in ("daemon-reload", "enable", "start"):
        assert session.call("systemd", {"action": action, "units": [name]})["exit"] == 0
    state = unit_state(session, name)
    assert (state["load"], state["active"], state["sub"], state["enabled"]) == (
        "loaded",
        "active",
        "running",
        "enabled",
    )
    assert state["fragment"] == f"/etc/systemd/system/{name}"
    assert state["exe"].startswith("/usr/bin/python3")
    assert state["main_pid"] > 1
    assert state["started"] > 0
    assert len(state["invocation"]) == 32
    assert state["restarts"] == 0
    assert state["control_group"].endswith(name)

    until(lambda: bool(session.call("journal", {"unit": name, "lines": 50, "grep": "HOME"})["lines"]))
    lines = session.call("journal", {"unit": name, "lines": 50, "invocation": state["invocation"]})["lines"]
    (said,) = [line["message"] for line in lines if line["message"].startswith("[[")]
    assert json.loads(said) == [HARD_WORDS, " ".join(HARD_WORDS)], "what the process got is what was written"
    assert any("Started" in line["message"] for line in lines)
    assert abs(lines[-1]["time"] - time.time()) < 3600

    session.call("run", {"argv": ["kill", "-KILL", str(state["main_pid"])]})
    until(lambda: unit_state(session, name)["invocation"] not in {"", state["invocation"]})
    assert unit_state(session, name)["restarts"] == 1
    put(session, f"/etc/systemd/system/{name}", "[Service]\nExecStart=/bin/true\n")
    assert unit_state(session, name)["need_reload"] is True
    session.call("systemd", {"action": "stop", "units": [name]})
    assert unit_state(session, name)["active"] in {"inactive", "failed"}
    session.call("systemd", {"action": "disable", "units": [name]})
    assert unit_state(session, name)["enabled"] != "enabled"
    session.call("remove", {"paths": [f"/etc/systemd/system/{name}"]})
    session.call("systemd", {"action": "daemon-reload"})
    assert unit_state(session, name)["load"] == "not-found"


def test_a_start_that_fails_says_so(hosts: Lab, start: Opener) -> None:
    session = start(hosts["atlas"])
    put(session, "/etc/systemd/system/hetctl-bad.service", "[Service]\nType=oneshot\nExecStart=/bin/false\n")
    session.call("systemd", {"action": "daemon-reload"})
    done = session.call("systemd", {"action": "start", "units": ["hetctl-bad.service"]})
    assert done["exit"] != 0
    assert "failed" in done["stderr"]
    assert unit_state(session, "hetctl-bad.service")["result"] == "exit-code"
    session.call("systemd", {"action": "reset-failed", "units": ["hetctl-bad.service"]})
    session.call("remove", {"paths": ["/etc/systemd/system/hetctl-bad.service"]})


def test_the_journal_is_followed_until_the_deadline(hosts: Lab, start: Opener) -> None:
    session, other = start(hosts["atlas"], read_only=True), start(hosts["atlas"])
    seen: list[str] = []

    def follow() -> None:
        with pytest.raises(DeadlineExceeded):
            session.call(
                "journal",
                {"unit": "hetctl-say.service", "lines": 0, "follow": True},
                deadline=6,
                on_event=lambda event: seen.append(str(event["message"])),
            )

    thread = threading.Thread(target=follow)
    thread.start()

    def say() -> bool:
        argv = ["systemd-run", "--wait", "--quiet", "--unit=hetctl-say", "echo", "hello there"]
        other.call("run", {"argv": argv})
        return "hello there" in seen

    until(say, 5)
    thread.join(20)
    assert session.call("marks")["lock"] is None, "the session goes on after the deadline"


def test_a_table_is_loaded_seen_and_removed(hosts: Lab, start: Opener) -> None:
    session = start(hosts["atlas"])

    def look() -> dict[str, Any]:
        table = {"type": "nft_table", "family": "inet", "name": "hetctl_test"}
        state: dict[str, Any] = session.call("observe", {"objects": [table]})["states"][0]
        return state

    assert look() == {"exists": False}
    chain = "type filter hook input priority -5; tcp dport 20052 counter drop;"
    script = f"table inet hetctl_test {{\n chain input {{ {chain} }}\n}}\n"
    assert session.call("nft", {"script": script})["exit"] == 0
    first = look()
    assert first["exists"] is True
    assert "tcp dport 20052" in first["text"]
    assert look() == first, "counters are not part of it"
    bad = session.call("nft", {"script": script + "nonsense\n"})
    assert bad["exit"] != 0
    assert "syntax error" in bad["stderr"]
    session.call("nft", {"script": "delete table inet hetctl_test\n"})
    assert look() == {"exists": False}


def test_a_user_who_may_sudo_is_enough(hosts: Lab) -> None:
    atlas = hosts["atlas"]
    session = AgentSession(
        "atlas", transport(atlas, SUDO_USER), read_only=True, sudo_password=lambda: SUDO_PASSWORD
    )
    session.open()
    assert session.hello["uid"] == 0
    assert session.peer_address == atlas.address
    assert SUDO_PASSWORD not in atlas.exec(["ps", "axww"]).stdout
    session.close()
    for password in (None, lambda: "wrong"):
        refused = AgentSession("atlas", transport(atlas, SUDO_USER), read_only=True, sudo_password=password)
        began = time.monotonic()
        with pytest.raises(NodeUnsuitable, match="may not become root"):
            refused.open()
        assert time.monotonic() - began < 15


def test_sudo_without_a_password_is_enough_too(hosts: Lab) -> None:
    atlas = hosts["atlas"]
    rule = f"{SUDO_USER} ALL=(ALL) NOPASSWD: ALL\n"
    atlas.exec(["tee", "/etc/sudoers.d/zz-test"], text=rule)
    try:
        session = AgentSession("atlas", transport(atlas, SUDO_USER), read_only=True)
        session.open()
        assert session.hello["uid"] == 0
        session.close()
    finally:
        atlas.exec(["rm", "/etc/sudoers.d/zz-test"])


def test_a_frozen_host_fails_within_the_connect_deadline(hosts: Lab) -> None:
    pascal = hosts["pascal"]
    pascal.freeze()
    try:
        began = time.monotonic()
        with pytest.raises(NodeUnreachable, match="in time"):
            transport(pascal, connect_deadline=2).open()
        assert time.monotonic() - began < 4
    finally:
        pascal.thaw()


def test_one_dead_host_does_not_delay_the_others(hosts: Lab) -> None:
    hosts["pascal"].cut()
    try:
        targets = {host.name: transport(host, connect_deadline=3) for host in hosts}
        began = time.monotonic()
        found = open_sessions(targets, read_only=True)
        assert time.monotonic() - began < 6
        assert isinstance(found["atlas"], AgentSession)
        assert isinstance(found["pascal"], NodeUnreachable)
        found["atlas"].close()
    finally:
        hosts["pascal"].heal()


def test_a_cut_cable_frees_the_lock_and_ends_what_runs(hosts: Lab, start: Opener) -> None:
    """Nobody hangs up: the agent notices the silence, the operator the missing signs of life."""
    pascal = hosts["pascal"]
    session = start(pascal)
    session.call("lock", {"holder": {"who": "anna"}})
    lost: list[float] = []

    def work() -> None:
        with pytest.raises((SessionLost, OperationFailed)):
            session.call("run", {"argv": ["sleep", "777"]}, deadline=600)
        lost.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: pascal.exec(["pgrep", "-fx", "sleep 777"], check=False).returncode == 0)
    pascal.cut()
    began = time.monotonic()
    try:
        until(lambda: pascal.exec(["pgrep", "-fx", "sleep 777"], check=False).returncode != 0, 60)
        assert 20 < time.monotonic() - began < 50
        thread.join(60)
        assert lost
        assert lost[0] - began < 50
    finally:
        pascal.heal()
    again = start(pascal)
    assert again.call("lock", {"holder": {"who": "bert"}}) == {"held": True}


def test_the_lock_of_one_host_is_not_that_of_another(hosts: Lab, start: Opener) -> None:
    first, second = start(hosts["atlas"]), start(hosts["pascal"])
    first.call("lock", {"holder": {"who": "anna"}})
    second.call("lock", {"holder": {"who": "anna"}})
    third = start(hosts["atlas"])
    with pytest.raises(LockHeld):
        third.call("lock", {"holder": {"who": "bert"}})


def test_reading_leaves_no_trace_and_the_last_cluster_none_either(hosts: Lab, start: Opener) -> None:
    pascal = hosts["pascal"]
    reader = start(pascal, read_only=True)
    reader.call("facts")
    reader.call("marks")
    reader.close()
    traces = ["find", "/", "-xdev", "-name", "*hetctl*", "-not", "-path", "/proc/*"]
    assert pascal.exec(traces).stdout == ""
    writer = start(pascal)
    writer.call("lock", {"holder": {"who": "anna"}})
    writer.install_agent()
    writer.call("write_mark", {"cluster": "den", "address": "server/chat", "mark": {}})
    writer.call("salt")
    assert start(pascal, read_only=True).hello["installed"] is True
    writer.call("remove_mark", {"cluster": "den", "address": "server/chat"})
    assert writer.call("remove_cluster", {"cluster": "den"}) == {"left": []}
    assert "busy" not in writer.call("probe_tcp", {"address": pascal.address, "port": 22})
    writer.close()
    until(lambda: pascal.exec([*traces[:1], "/run", "/var", "/etc", "-name", "*hetctl*"]).stdout == "")


def test_a_full_disk_leaves_the_old_file(lab: LabFactory) -> None:
    tiny = lab("tiny", disk="64m")["tiny"]
    session = AgentSession("tiny", transport(tiny), read_only=False)
    session.open()
    put(session, "/var/f", "old")
    blocks = (bytes(1 << 20) for _ in range(200))
    with pytest.raises(OperationFailed, match="put_file") as caught:
        session.call("put_file", {"path": "/var/f", "mode": 0o644}, upload=blocks)
    assert "No space left" in caught.value.why
    assert tiny.exec(["cat", "/var/f"]).stdout == "old"
    assert tiny.exec(["find", "/var", "-name", ".hetctl-*"]).stdout == ""
    session.close()


def test_openssh_agrees_that_the_key_was_recorded(hosts: Lab, tmp_path: Any) -> None:
    atlas = hosts["atlas"]
    known = tmp_path / "known_hosts"
    SSHTransport(
        atlas.address, "root", identity_files=[atlas.identity], known_hosts=known, accept_new=True,
        config_file=atlas.directory / "no_ssh_config",
    ).open()  # fmt: skip
    argv = ["ssh", "-F", "none", "-i", str(atlas.identity), "-o", f"UserKnownHostsFile={known}"]
    done = subprocess.run(
        [*argv, "-o", "StrictHostKeyChecking=yes", f"root@{atlas.address}", "hostname"],
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert done.stdout == "atlas\n"
