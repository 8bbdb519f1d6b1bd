"""What a node says is sorted by whose it is and by how well it can be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hetctl.resources.base import Mark, digest
from hetctl.resources.marks import FORMAT_VERSION, mark_to_json
from hetctl.resources.reading import NodeReading, read_node
from hetctl.transport.fake import FakeSession
from tests.resources.den import FACTS


def stored(cluster: str, address: str, **changed: Any) -> dict[str, Any]:
    mark = Mark(cluster, address, address.partition("/")[0], "old", {}, digest({}), 1)
    return {address: {**mark_to_json(mark), **changed}}


def read(clusters: dict[str, Any], **asked: str) -> NodeReading:
    session = FakeSession("bench", {"facts": dict(FACTS), "marks": {"clusters": clusters}})
    return read_node(session, cluster="den", destinations=[], paths=[], **asked)


def test_marks_are_sorted_by_how_well_they_can_be_read() -> None:
    reading = read(
        {
            "den": {
                "members": {"nodes": {}},
                "marks": {
                    **stored("den", "member/old"),
                    **stored("den", "server/chat", formatVersion=FORMAT_VERSION + 1),
                    **stored("den", "build/main@old", checksum="x"),
                },
            },
            "attic": {"members": None, "marks": stored("attic", "server/chat", checksum="x")},
            "cellar": {"members": None, "marks": stored("cellar", "server/chat")},
        }
    )
    assert set(reading.marks) == {"member/old"}
    assert set(reading.newer) == {"den: server/chat"}
    assert set(reading.damaged) == {"build/main@old"}
    assert [mark.cluster for mark in reading.foreign] == ["cellar"]
    assert reading.unclear == {"attic"}


def test_a_mark_stands_where_it_was_read_and_the_machine_remembers_its_name() -> None:
    reading = read({"den": {"members": None, "marks": stored("den", "member/old")}})
    assert reading.marks["member/old"].node == "bench"
    assert (reading.names, reading.called) == (("old",), "old")
    assert replace(reading, names=("bench", "old")).called == "old"
    assert replace(reading, names=("bench",)).called == "bench"
    assert replace(reading, names=()).called == ""


def test_what_carries_a_former_name_of_the_cluster_is_its_own() -> None:
    clusters = {"pit": {"members": {"nodes": {"old": {}}}, "marks": stored("pit", "member/old")}}
    assert read(clusters).foreign != ()
    reading = read(clusters, predecessor="pit")
    assert reading.foreign == ()
    assert [mark.address for mark in reading.earlier] == ["member/old"]
    assert reading.members == {"nodes": {"old": {}}}
    assert reading.called == "old"
