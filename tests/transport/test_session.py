"""Sessions with the real agent, over a local process and over SSH."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hetctl.agent.operations import OPERATIONS
from hetctl.errors import (
    DeadlineExceeded,
    Interrupted,
    LockHeld,
    NodeUnreachable,
    OperationFailed,
    ProtocolMismatch,
    Refused,
    SessionLost,
)
from hetctl.transport import launch, session
from hetctl.transport.base import Transport
from hetctl.transport.bundle import Bundle, agent_bundle, pack
from hetctl.transport.fake import FakeTransport
from hetctl.transport.session import READ_ONLY_OPERATIONS, AgentSession, open_sessions

if TYPE_CHECKING:
    from tests.transport.conftest import Server

Opener = Callable[..., AgentSession]
Condition = Callable[[Callable[[], bool]], None]


@pytest.fixture(params=["local", "ssh"])
def make_transport(request: pytest.FixtureRequest) -> Callable[[], Transport]:
    if request.param == "local":
        return FakeTransport
    server: Server = request.getfixturevalue("sshd")
    return server.transport


@pytest.fixture
def start(make_transport: Callable[[], Transport], tmp_path: Path) -> Iterator[Opener]:
    """Open sessions on a directory of their own; they end with the test."""
    opened: list[AgentSession] = []

    def begin(
        *, read_only: bool = False, transport: Transport | None = None, node: str = "atlas"
    ) -> AgentSession:
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        agent = AgentSession(
            node, transport or make_transport(), read_only=read_only, root=str(root), become_root=False
        )
        agent.open()
        opened.append(agent)
        return agent

    yield begin
    for agent in opened:
        agent.close()


def faster(**constants: float) -> Bundle:
    """Return the agent with other constants in its main module, so that a test need not wait for long."""
    sources = dict(agent_bundle().sources)
    text = sources["hetctl.agent.main"]
    for name, value in constants.items():
        before, _, after = text.partition(f"\n{name} = ")
        assert after, name
        text = f"{before}\n{name} = {value}\n{after.partition(chr(10))[2]}"
    sources["hetctl.agent.main"] = text
    return pack(sources)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it may have gone with its channel
        os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text().partition("State:")[2].splitlines()[0]
    except OSError:
        return False


def test_a_session_greets_answers_and_ends(start: Opener, condition: Condition) -> None:
    agent = start()
    assert agent.hello["protocol"] == 1
    assert agent.hello["bundle"] == agent_bundle().sha256
    assert agent.hello["installed"] is False
    assert agent.peer_address == "127.0.0.1"
    facts = agent.call("facts", {"paths": ["/"]})
    assert facts["disks"]["/"]["total"] > 0
    agent.close()
    condition(lambda: not alive(agent.hello["pid"]))
    with pytest.raises(SessionLost):
        agent.call("facts")


def test_everything_goes_through_one_command(tmp_path: Path) -> None:
    transport = FakeTransport()
    agent = AgentSession("atlas", transport, read_only=True, root=str(tmp_path))
    agent.open()
    for _ in range(5):
        agent.call("observe", {"objects": [{"type": "file", "path": "/x"}]})
    agent.close()
    assert (transport.opened, len(transport.commands)) == (1, 1)
    assert transport.bytes_sent < 60_000, "the agent and five requests"
    assert transport.bytes_received < 5_000


def test_a_session_leaves_no_file(start: Opener, tmp_path: Path) -> None:
    agent = start(read_only=True)
    agent.call("facts")
    agent.call("marks")
    agent.close()
    assert list((tmp_path / "root").rglob("*")) == []


def test_both_sides_agree_on_what_only_reads() -> None:
    assert {name for name, operation in OPERATIONS.items() if not operation.mutates} == READ_ONLY_OPERATIONS


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - READ_ONLY_OPERATIONS))
def test_a_read_only_session_refuses_here_and_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    transport = FakeTransport()
    agent = AgentSession("atlas", transport, read_only=True, root=str(tmp_path))
    agent.open()
    sent = transport.bytes_sent
    with pytest.raises(Refused, match=operation):
        agent.call(operation)
    assert transport.bytes_sent == sent, "nothing was sent"
    monkeypatch.setattr(session, "READ_ONLY_OPERATIONS", frozenset(OPERATIONS))
    with pytest.raises(Refused, match=operation):
        agent.call(operation, upload=[b"x"])
    assert agent.call("marks")["lock"] is None, "the session goes on"
    agent.close()


def test_uploads_and_downloads_carry_every_byte(start: Opener) -> None:
    agent = start()
    blocks = [os.urandom(size) for size in (1, 65_536, 0, 262_144, 7, 1 << 20)]
    answer = agent.call("put_file", {"path": "/a/b", "mode": "0640"}, upload=iter(blocks))
    assert answer["state"]["size"] == sum(map(len, blocks))
    assert answer["created_directories"] == ["/a"]
    received = bytearray()
    agent.call("get_tree", {"path": "/a"}, download=received.extend)
    assert b"".join(blocks) in bytes(received)


def test_a_long_download_is_not_lost_on_a_slow_reader(start: Opener, tmp_path: Path) -> None:
    agent = start()
    (tmp_path / "root" / "big").mkdir()
    content = os.urandom(1 << 20) * 48
    (tmp_path / "root" / "big" / "f").write_bytes(content)
    received = bytearray()

    def slowly(block: bytes) -> None:
        if len(received) < 1 << 20:
            time.sleep(0.05)
        received.extend(block)

    agent.call("get_tree", {"path": "/big"}, download=slowly)
    assert content in bytes(received)


def test_an_upload_stops_early_when_the_node_has_answered(start: Opener) -> None:
    agent = start()
    sent = 0

    def blocks() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(4000):
            sent += 1
            yield bytes(1 << 18)

    agent.call("make_directories", {"paths": [{"path": "/d"}]})
    with pytest.raises(OperationFailed, match="directory"):
        agent.call("put_file", {"path": "/d", "mode": "0644"}, upload=blocks())
    assert sent < 4000
    assert agent.call("marks")["clusters"] == {}


def test_events_come_while_it_runs(start: Opener) -> None:
    agent = start()
    events: list[Any] = []
    script = "for n in 1 2 3; do echo line $n; sleep 0.15; done"
    answer = agent.call("run", {"argv": ["sh", "-c", script], "events": True}, on_event=events.append)
    assert answer["exit"] == 0
    assert [event["line"] for event in events] == ["line 1", "line 2", "line 3"]


@pytest.mark.parametrize(
    ("operation", "arguments", "error"),
    [
        ("no-such", {}, ProtocolMismatch),
        ("read_file", {}, ProtocolMismatch),
        ("read_file", {"path": "relative"}, ProtocolMismatch),
        ("read_file", {"path": "/../etc/passwd"}, ProtocolMismatch),
        ("read_file", {"path": "/none"}, OperationFailed),
        ("run", {"argv": ["/no/such/program"]}, OperationFailed),
    ],
)
def test_errors_have_classes_and_leave_the_session_usable(
    start: Opener, operation: str, arguments: dict[str, Any], error: type[Exception]
) -> None:
    agent = start()
    with pytest.raises(error) as caught:
        agent.call(operation, arguments)
    assert caught.value.where == "atlas"  # type: ignore[attr-defined]  # any of our errors has it
    assert agent.call("marks")["lock"] is None


def test_the_node_ends_what_takes_too_long_with_all_its_children(start: Opener, condition: Condition) -> None:
    agent = start()
    script = "sleep 300 & echo $! > $1; sleep 300 & wait"
    file = agent.hello["pid"]
    pids = Path(f"/tmp/hetctl-test-{file}")
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        agent.call("run", {"argv": ["sh", "-c", script, "sh", str(pids)]}, deadline=0.7)
    assert time.monotonic() - began < 5
    child = int(pids.read_text())
    pids.unlink()
    condition(lambda: not alive(child))
    assert agent.call("run", {"argv": ["true"]})["exit"] == 0


def test_what_is_not_wanted_any_more_is_ended_on_the_node(start: Opener, condition: Condition) -> None:
    agent = start()
    pids = Path(f"/tmp/hetctl-test-{agent.hello['pid']}")
    script = "echo $$ > $1; exec sleep 300"
    began = time.monotonic()
    with pytest.raises(Interrupted):
        agent.call("run", {"argv": ["sh", "-c", script, "sh", str(pids)]}, deadline=600, stop=pids.exists)
    assert time.monotonic() - began < 5
    process = int(pids.read_text())
    pids.unlink()
    condition(lambda: not alive(process))
    assert agent.call("run", {"argv": ["true"]})["exit"] == 0


def test_a_child_that_ignores_term_is_killed(start: Opener) -> None:
    agent = start()
    script = "trap '' TERM; while :; do sleep 0.1; done"
    with pytest.raises(DeadlineExceeded):
        agent.call("run", {"argv": ["sh", "-c", script]}, deadline=0.3)
    assert agent.call("run", {"argv": ["true"]})["exit"] == 0


def test_an_error_here_takes_the_request_back_and_the_session_goes_on(start: Opener) -> None:
    agent = start()

    class Stop(Exception):  # noqa: N818 - a signal of this test
        pass

    def stop(_: Any) -> None:
        raise Stop

    began = time.monotonic()
    with pytest.raises(Stop):
        agent.call("run", {"argv": ["sh", "-c", "echo x; sleep 300"], "events": True}, on_event=stop)

    def broken() -> Iterator[bytes]:
        yield b"part"
        raise Stop

    with pytest.raises(Stop):
        agent.call("put_file", {"path": "/part", "mode": "0644"}, upload=broken())
    assert time.monotonic() - began < 10
    assert agent.call("observe", {"objects": [{"type": "file", "path": "/part"}]})["states"] == [
        {"exists": False}
    ]


def test_only_one_holds_the_lock_and_its_end_frees_it(start: Opener) -> None:
    first, second = start(), start(node="bench")
    holder = {"who": "anna@desk", "commit": "abc"}
    assert first.call("lock", {"holder": holder}) == {"held": True}
    assert first.call("lock", {"holder": holder}) == {"held": True}
    with pytest.raises(LockHeld) as caught:
        second.call("lock", {"holder": {"who": "bert"}})
    assert "anna@desk" in caught.value.why
    assert "abc" in caught.value.why
    assert caught.value.where == "bench"
    assert second.call("marks")["lock"]["holder"]["who"] == "anna@desk"
    first.close()
    assert second.call("marks")["lock"] is None
    assert second.call("lock", {"holder": {"who": "bert"}}) == {"held": True}


def test_a_holder_that_is_there_keeps_the_lock_unless_it_is_forced(start: Opener) -> None:
    first, second = start(), start()
    first.call("lock", {"holder": {"who": "anna"}})
    lock = second.call("marks")["lock"]
    assert lock["silent"] < 10
    with pytest.raises(Refused, match="still there"):
        second.call("unlock", {"pid": lock["holder"]["pid"]})
    with pytest.raises(Refused, match="somebody else"):
        second.call("unlock", {"pid": 1, "force": True})
    ended = second.call("unlock", {"pid": lock["holder"]["pid"], "force": True})["ended"]
    assert first.hello["pid"] in [process["pid"] for process in ended]
    assert second.call("marks")["lock"] is None
    assert second.call("unlock", {"pid": 1})["ended"] == []


def test_a_frozen_holder_is_ended_once_it_heard_nothing_for_long(start: Opener, tmp_path: Path) -> None:
    first, second = start(), start()
    first.call("lock", {"holder": {"who": "anna"}})
    os.kill(first.hello["pid"], signal.SIGSTOP)
    pid = second.call("marks")["lock"]["holder"]["pid"]
    with pytest.raises(Refused):
        second.call("unlock", {"pid": pid})
    lock = tmp_path / "root" / "run/hetctl/lock"
    os.utime(lock, (time.time() - 60, time.time() - 60))
    assert second.call("marks")["lock"]["silent"] >= 60
    assert [process["pid"] for process in second.call("unlock", {"pid": pid})["ended"]] == [pid]
    assert second.call("marks")["lock"] is None


def test_a_killed_agent_frees_the_lock(start: Opener, condition: Condition) -> None:
    first, second = start(), start()
    first.call("lock", {"holder": {"who": "anna"}})
    os.kill(first.hello["pid"], signal.SIGKILL)
    condition(lambda: second.call("marks")["lock"] is None)
    second.call("lock", {"holder": {"who": "bert"}})
    with pytest.raises(SessionLost):
        first.call("marks")


def test_what_was_started_under_the_lock_keeps_it(
    start: Opener, tmp_path: Path, condition: Condition
) -> None:
    first, second = start(), start()
    first.call("lock", {"holder": {"who": "anna"}})
    pid_file = tmp_path / "pid"

    def work() -> None:
        with pytest.raises(SessionLost):
            first.call("run", {"argv": ["sh", "-c", f"echo $$ > {pid_file}; exec sleep 300"]}, deadline=300)

    thread = threading.Thread(target=work)
    thread.start()
    condition(lambda: pid_file.exists() and pid_file.read_text().strip() != "")
    os.kill(first.hello["pid"], signal.SIGKILL)  # it cannot clean up
    thread.join(20)
    with pytest.raises(LockHeld):
        second.call("lock", {"holder": {"who": "bert"}})
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    condition(lambda: second.call("marks")["lock"] is None)


def test_a_lost_operator_ends_the_agent_and_what_it_runs(
    start: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, condition: Condition
) -> None:
    """As when a cable is cut: no end of input, just silence."""
    monkeypatch.setattr(launch, "agent_bundle", lambda: faster(SILENCE_SECONDS=1.0, BEAT_SECONDS=0.2))
    monkeypatch.setattr(session, "BEAT_SECONDS", 3600.0)
    agent = start()
    pid_file = tmp_path / "pid"
    with pytest.raises((SessionLost, OperationFailed)):
        agent.call("run", {"argv": ["sh", "-c", f"echo $$ > {pid_file}; exec sleep 300"]}, deadline=300)
    condition(lambda: not alive(agent.hello["pid"]))
    assert not alive(int(pid_file.read_text()))


def test_heartbeats_keep_a_quiet_session_alive(start: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "agent_bundle", lambda: faster(SILENCE_SECONDS=1.0, BEAT_SECONDS=0.2))
    monkeypatch.setattr(session, "BEAT_SECONDS", 0.2)
    agent = start()
    assert agent.call("run", {"argv": ["sleep", "2"]})["exit"] == 0


def test_a_frozen_node_is_noticed(start: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(launch, "agent_bundle", lambda: faster(BEAT_SECONDS=0.2))
    agent = start()
    os.kill(agent.hello["pid"], signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(SessionLost):
        agent.call("run", {"argv": ["true"]}, deadline=300)
    assert time.monotonic() - began < 10
    kill(agent.hello["pid"])


def test_a_node_that_does_not_answer_in_time_is_given_up(
    start: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ANSWER_SLACK", 0.5)
    agent = start()
    os.kill(agent.hello["pid"], signal.SIGSTOP)
    with pytest.raises(SessionLost, match="no answer"):
        agent.call("marks", deadline=0.2)
    kill(agent.hello["pid"])
    with pytest.raises(SessionLost):
        agent.call("marks")


def test_an_operation_that_cannot_be_interrupted_ends_the_agent(
    start: Opener, monkeypatch: pytest.MonkeyPatch, condition: Condition
) -> None:
    bundle = faster(HANG_SECONDS=0.5, BEAT_SECONDS=0.2)
    sources = dict(bundle.sources)
    # what a file system that hangs looks like: no signal gets through
    sources["hetctl.agent.network"] += (
        "\n\ndef routes(context, arguments):\n"
        "    import signal, time\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGUSR1])\n"
        "    time.sleep(300)\n"
    )
    monkeypatch.setattr(launch, "agent_bundle", lambda: pack(sources))
    agent = start()
    began = time.monotonic()
    with pytest.raises((DeadlineExceeded, SessionLost)):
        agent.call("routes", {"destinations": []}, deadline=0.3)
    assert time.monotonic() - began < 4
    condition(lambda: not alive(agent.hello["pid"]))


def test_install_leaves_bytecode_that_the_next_session_uses(start: Opener, tmp_path: Path) -> None:
    agent = start()
    agent.install_agent()
    directory = tmp_path / "root" / "var/lib/hetctl/agent"
    assert [path.name for path in directory.iterdir()] == [agent_bundle().sha256]
    before = [(path, path.stat().st_mtime_ns) for path in sorted(directory.rglob("*"))]
    agent.call("install", {"bundle": agent_bundle().sha256})
    assert [(path, path.stat().st_mtime_ns) for path in sorted(directory.rglob("*"))] == before
    again = start(read_only=True)
    assert again.hello["installed"] is True
    assert again.call("facts")["uid"] == os.geteuid()


def test_bytecode_that_others_could_have_written_is_not_run(start: Opener, tmp_path: Path) -> None:
    agent = start()
    agent.install_agent()
    directory = tmp_path / "root" / "var/lib/hetctl/agent" / agent_bundle().sha256
    directory.chmod(0o777)
    assert start(read_only=True).hello["installed"] is False
    directory.chmod(0o755)
    (file,) = [path for path in directory.iterdir() if path.name.startswith("bytecode")]
    file.write_bytes(b"rubbish")
    assert start(read_only=True).hello["installed"] is False


def test_an_older_agent_goes_when_a_newer_one_is_installed(start: Opener, tmp_path: Path) -> None:
    directory = tmp_path / "root" / "var/lib/hetctl/agent"
    (directory / "0ld").mkdir(parents=True)
    start().install_agent()
    assert [path.name for path in directory.iterdir()] == [agent_bundle().sha256]


def test_many_nodes_are_opened_at_once(sshd: Server) -> None:
    targets: dict[str, Transport] = {f"n{number}": sshd.transport() for number in range(6)}
    targets["down"] = FakeTransport(refuse=NodeUnreachable("it is down"))
    found = open_sessions(targets, read_only=True)
    assert list(found) == list(targets)
    down = found.pop("down")
    assert isinstance(down, NodeUnreachable)
    assert down.where == "down"
    for name, agent in found.items():
        assert isinstance(agent, AgentSession)
        assert agent.node == name
        assert agent.call("marks")["lock"] is None
        agent.close()


def test_a_bug_while_opening_closes_what_was_opened() -> None:
    class Broken(FakeTransport):
        def open(self) -> None:
            raise ZeroDivisionError

    closed: list[str] = []

    class Counted(FakeTransport):
        def close(self) -> None:
            closed.append(self.target)

    with pytest.raises(ZeroDivisionError):
        open_sessions({"a": Counted("a"), "b": Broken()}, read_only=True, limit=1)
    assert closed == ["a"]
