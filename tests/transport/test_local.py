"""Commands on this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hetctl.errors import SessionLost
from hetctl.transport.local import LocalTransport


def test_a_command_gets_input_and_gives_output_complaints_and_status() -> None:
    channel = LocalTransport().execute("cat; echo no >&2; exit 7")
    content = os.urandom(3 << 20)
    received = bytearray()
    for at in range(0, len(content), 1 << 19):
        channel.send(content[at : at + (1 << 19)])
        while len(received) < at:
            received += channel.receive(1 << 20, deadline=5)
    channel.close_input()
    while block := channel.receive(1 << 20, deadline=5):
        received += block
    assert bytes(received) == content
    assert channel.exit_status(deadline=5) == 7
    assert channel.errors() == "no\n"
    channel.close()
    channel.close()


def test_the_status_of_a_killed_command_is_that_of_a_shell() -> None:
    channel = LocalTransport().execute("kill -TERM $$")
    assert channel.exit_status(deadline=5) == 128 + 15
    channel.close()


def test_every_wait_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetctl.transport.local.SEND_SECONDS", 0.2)
    channel = LocalTransport().execute("exec sleep 60")
    began = time.monotonic()
    with pytest.raises(SessionLost):
        channel.receive(1, deadline=0.2)
    with pytest.raises(SessionLost):
        channel.exit_status(deadline=0.2)
    with pytest.raises(SessionLost):
        channel.send(bytes(16 << 20))
    assert time.monotonic() - began < 3
    channel.close()


def test_sending_to_a_command_that_ended_is_a_lost_session() -> None:
    channel = LocalTransport().execute("exec 0<&-; echo gone >&2; exit 3")
    channel.exit_status(deadline=5)
    with pytest.raises(SessionLost) as caught:
        channel.send(b"x" * 100_000)
    assert "gone" in caught.value.why
    channel.close()
    with pytest.raises(SessionLost):
        channel.receive(1, deadline=1)


def test_closing_ends_the_command_and_its_children(tmp_path: Path) -> None:
    channel = LocalTransport().execute(f"sleep 300 & echo $! > {tmp_path}/pid; echo started; wait")
    assert channel.receive(100, deadline=5) == b"started\n"
    pid = int((tmp_path / "pid").read_text())
    channel.close()
    ends = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < ends, "the child outlived its channel"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Return whether a process runs; one that nobody waited for does not."""
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
