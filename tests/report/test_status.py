from __future__ import annotations

from hetctl.engine.inquiry import StatusResult
from hetctl.errors import NodeUnreachable
from hetctl.report.status import status_text
from hetctl.report.terminal import PLAIN
from hetctl.resources.view import (
    Endpoint,
    Health,
    MemberStatus,
    PlacementStatus,
)

RESULT = StatusResult(
    "den",
    (
        PlacementStatus(
            "chat",
            Health.READY,
            members=(
                MemberStatus("worker/chat@pascal", "pascal", Health.READY, "active since 10:42"),
                MemberStatus("server/chat", "atlas", Health.READY, "active since 10:43, 3 restarts"),
            ),
            endpoint=Endpoint("chat", "http://h:8080/v1", "chat"),
        ),
        PlacementStatus("embed", Health.FAILED, "the worker on bench is gone", fix="hetctl logs embed"),
    ),
    {"bench": NodeUnreachable("no connection to bench", why="timed out")},
    frozenset({"atlas", "pascal", "bench"}),
    (),
)


def test_status_as_text() -> None:
    lines = status_text(RESULT, PLAIN).splitlines()
    assert lines[:4] == [
        "bench  ? unknown: no connection to bench: timed out",
        "chat  ready",
        "  pascal  worker/chat  ready  active since 10:42",
        "  atlas   server/chat  ready  active since 10:43, 3 restarts",
    ]
    assert lines[4] == "  chat  http://h:8080/v1  model chat  no key"
    assert lines[5].startswith("    curl ")
    assert lines[6:] == ["embed  failed  the worker on bench is gone", "  fix: hetctl logs embed"]


def test_a_cluster_without_placements() -> None:
    assert status_text(StatusResult("den", (), {}, frozenset(), ()), PLAIN) == "den declares no placements\n"
