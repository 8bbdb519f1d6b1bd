"""The stand-ins behave like the real ones where it matters."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetctl.errors import NodeUnreachable, OperationFailed, Refused, SessionLost
from hetctl.transport.base import Session, Transport
from hetctl.transport.fake import FakeAnswer, FakeCall, FakeSession, FakeTransport, Unscripted
from hetctl.transport.session import AgentSession


def test_answers_may_be_results_functions_errors_and_lists() -> None:
    session: Session = FakeSession(
        "atlas",
        {
            "facts": {"uid": 0},
            "read_file": lambda call: {"content": call.arguments["path"]},
            "nft": OperationFailed("no nft"),
            "marks": [{"clusters": {}}, {"clusters": {"den": {}}}],
        },
    )
    assert session.call("facts") == {"uid": 0}
    assert session.call("read_file", {"path": "/x"}) == {"content": "/x"}
    with pytest.raises(OperationFailed):
        session.call("nft")
    assert [len(session.call("marks")["clusters"]) for _ in range(3)] == [0, 1, 1]
    with pytest.raises(Unscripted):
        session.call("salt")


def test_calls_bodies_and_events_are_recorded_and_played() -> None:
    session = FakeSession(answers={"run": FakeAnswer({"exit": 0}, events=({"line": "x"},)), "put_file": {}})
    events: list[object] = []
    session.call("run", {"argv": ["true"]}, on_event=events.append, deadline=5)
    session.call("put_file", {"path": "/x"}, upload=[b"a", b"b"])
    assert events == [{"line": "x"}]
    assert session.calls == [
        FakeCall("run", {"argv": ["true"]}, b"", 5),
        FakeCall("put_file", {"path": "/x"}, b"ab", 60.0),
    ]
    assert session.mutations == session.calls
    received: list[bytes] = []
    FakeSession(answers={"get_tree": FakeAnswer({}, body=(b"tar",))}).call(
        "get_tree", download=received.append
    )
    assert received == [b"tar"]


def test_a_read_only_or_closed_fake_refuses_like_a_real_session() -> None:
    session = FakeSession(answers={"lock": {}, "facts": {}}, read_only=True)
    with pytest.raises(Refused):
        session.call("lock")
    session.close()
    with pytest.raises(SessionLost):
        session.call("facts")


def test_a_cut_connection_is_a_lost_session(tmp_path: Path) -> None:
    transport = FakeTransport()
    checked: Transport = transport
    agent = AgentSession("atlas", checked, read_only=True, root=str(tmp_path))
    agent.open()
    transport.cut()
    with pytest.raises(SessionLost):
        agent.call("marks")
    agent.close()


def test_a_node_can_be_down() -> None:
    agent = AgentSession("atlas", FakeTransport(refuse=NodeUnreachable("down")), read_only=True)
    with pytest.raises(NodeUnreachable) as caught:
        agent.open()
    assert caught.value.where == "atlas"
