"""Sending files, in one go and in several."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hetctl.errors import Interrupted, OperationFailed
from hetctl.transport.fake import FakeTransport
from hetctl.transport.session import AgentSession
from hetctl.transport.transfer import send_file, sha256_of


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentSession]:
    (tmp_path / "root").mkdir()
    session = AgentSession("atlas", FakeTransport(), read_only=False, root=str(tmp_path / "root"))
    session.open()
    yield session
    session.close()


def test_a_file_arrives_whole(agent: AgentSession, tmp_path: Path) -> None:
    source = tmp_path / "model.gguf"
    source.write_bytes(os.urandom(3_000_000))
    seen: list[tuple[int, int]] = []
    answer = send_file(
        agent,
        source,
        "/models/model.gguf",
        progress=lambda *now: seen.append(now),
        uid=os.geteuid(),
        gid=os.getegid(),
    )
    assert (tmp_path / "root/models/model.gguf").read_bytes() == source.read_bytes()
    assert answer["state"]["sha256"] == sha256_of(source)
    assert seen[-1] == (3_000_000, 3_000_000)
    assert sorted(path.name for path in (tmp_path / "root/models").iterdir()) == ["model.gguf"]


def test_an_interrupted_upload_goes_on_where_it_stopped(agent: AgentSession, tmp_path: Path) -> None:
    source = tmp_path / "model.gguf"
    source.write_bytes(os.urandom(1 << 20) * 40)

    class Stop(Exception):  # noqa: N818 - a signal of this test
        pass

    def stop(done: int, _: int) -> None:
        if done > 30 << 20:
            raise Stop

    with pytest.raises(Stop):
        send_file(agent, source, "/models/model.gguf", progress=stop, uid=os.geteuid(), gid=os.getegid())
    assert not (tmp_path / "root/models/model.gguf").exists()
    there = agent.call("partial", {"path": "/models/model.gguf", "sha256": sha256_of(source)})["size"]
    assert 0 < there < 40 << 20
    seen: list[int] = []
    send_file(
        agent,
        source,
        "/models/model.gguf",
        progress=lambda done, _: seen.append(done),
        uid=os.geteuid(),
        gid=os.getegid(),
    )
    assert seen[0] > there, "what was there was not sent again"
    assert (tmp_path / "root/models/model.gguf").read_bytes() == source.read_bytes()
    assert sorted(path.name for path in (tmp_path / "root/models").iterdir()) == ["model.gguf"]


def test_a_damaged_partial_file_is_noticed_and_thrown_away(agent: AgentSession, tmp_path: Path) -> None:
    source = tmp_path / "f"
    source.write_bytes(b"right content")
    (tmp_path / "root/d").mkdir()
    partial = tmp_path / f"root/d/.hetctl-partial-{sha256_of(source)}"
    partial.write_bytes(b"wrong")
    with pytest.raises(OperationFailed, match="not the one announced"):
        send_file(agent, source, "/d/f", uid=os.geteuid(), gid=os.getegid())
    assert not partial.exists()
    send_file(agent, source, "/d/f", uid=os.geteuid(), gid=os.getegid())
    assert (tmp_path / "root/d/f").read_bytes() == b"right content"


def test_a_full_disk_is_told_before_anything_is_sent(agent: AgentSession) -> None:
    with pytest.raises(OperationFailed, match="not enough space") as caught:
        agent.call("put_file", {"path": "/f", "mode": "0644", "size": 1 << 60}, upload=[])
    assert "free" in caught.value.why


def test_an_upload_that_is_not_wanted_any_more_stops_and_keeps_what_is_there(
    agent: AgentSession, tmp_path: Path
) -> None:
    source = tmp_path / "model.gguf"
    source.write_bytes(os.urandom(1 << 20) * 40)
    sent: list[int] = []
    with pytest.raises(Interrupted):
        send_file(
            agent,
            source,
            "/models/model.gguf",
            progress=lambda done, _: sent.append(done),
            stop=lambda: bool(sent) and sent[-1] > 20 << 20,
        )
    there = agent.call("partial", {"path": "/models/model.gguf", "sha256": sha256_of(source)})["size"]
    assert 0 < there < 40 << 20
    assert not (tmp_path / "root/models/model.gguf").exists()
