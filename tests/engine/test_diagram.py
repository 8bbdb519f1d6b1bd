"""The graph of a plan holds its resources, the graph of a run its steps."""

from __future__ import annotations

from hetctl.engine.diagram import plan_diagram, step_diagram
from hetctl.engine.operations import ApplyOptions, apply, diff
from tests.engine.toy import Yes, cluster_of, toy

CHAT = (
    toy("member/a", "a"),
    toy("build/main", "a", depends_on=("member/a",)),
    toy("server/chat", "a", gang="chat", depends_on=("member/a", "build/main")),
)


def test_what_follows_from_others_is_left_out() -> None:
    diagram = plan_diagram(diff(cluster_of(*CHAT)).plan)
    assert [vertex.name for vertex in diagram.vertices] == [
        "member/a on a",
        "build/main on a",
        "server/chat on a",
    ]
    assert set(diagram.edges) == {
        ("server/chat on a", "build/main on a"),
        ("build/main on a", "member/a on a"),
    }
    assert {vertex.action for vertex in diagram.vertices} == {"create"}


def test_what_stays_is_shown_as_well() -> None:
    cluster = cluster_of(*CHAT)
    apply(cluster, Yes(), ApplyOptions())
    assert {vertex.action for vertex in plan_diagram(diff(cluster).plan).vertices} == {"none"}


def test_steps() -> None:
    cluster = cluster_of(*CHAT)
    situation = diff(cluster)
    steps = cluster.steps(situation.plan, situation.plan.executable(prune=True), situation.survey)
    diagram = step_diagram("toybox", steps)
    assert ("make server/chat", "make build/main") in diagram.edges
    assert ("make server/chat", "make member/a") not in diagram.edges
