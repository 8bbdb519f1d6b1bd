"""A cluster that is known by one of its nodes alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetctl.errors import UsageError
from hetctl.resources.found import FoundCluster, found_cluster, parse_destination
from hetctl.resources.provider import Access, Survey
from hetctl.resources.reading import NodeReading
from tests.resources.den import Den, machine

MANIFEST = """
nodes:
  atlas: {address: 10.0.0.5}
  bench: {address: 10.0.0.7, cpuWorkers: {pool: {threads: 4}}}
placements:
  chat: {model: gemma, devices: [bench/pool], server: {node: atlas}}
"""


@pytest.mark.parametrize(
    ("text", "address", "user", "port"),
    [
        ("10.0.0.5", "10.0.0.5", None, None),
        ("ops@atlas", "atlas", "ops", None),
        ("ops@atlas.lan:2222", "atlas.lan", "ops", 2222),
        ("[fd00::5]:22", "fd00::5", None, 22),
        ("fd00::5", "fd00::5", None, None),
        ("local", "", None, None),
    ],
)
def test_a_node_is_named_as_for_ssh(text: str, address: str, user: str | None, port: int | None) -> None:
    found = parse_destination(text)
    assert (found.address, found.user, found.port) == (address, user, port)
    assert found.local is (text == "local")


@pytest.mark.parametrize(
    "text", ["", "-oProxyCommand=x", "a b", "a@", "@a", "a:0", "a:99999", "a:b", "a@b@c"]
)
def test_what_cannot_be_a_node_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_destination(text)


@pytest.mark.parametrize("name", ["", "Den", "a b", "a/b", "a'b", "x\nssh: {}"])
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a cluster's name"):
        found_cluster(name, "10.0.0.5", Access())


@pytest.mark.parametrize("name", ["den", "null", "1", "on"])
def test_words_of_yaml_are_names_too(name: str) -> None:
    assert found_cluster(name, "10.0.0.5", Access()).cluster == name


@pytest.fixture
def cluster() -> FoundCluster:
    return found_cluster("den", "ops@10.0.0.5", Access())


@pytest.fixture
def here(tmp_path: Path) -> NodeReading:
    den = Den(tmp_path, MANIFEST, facts={"atlas": {"machine_id": "five"}, "bench": {"machine_id": "seven"}})
    marks = {mark.address: mark for mark in den.applied().marks if mark.node == "atlas"}
    return NodeReading(
        node="10.0.0.5",
        peer_address="10.0.0.5",
        facts=machine(machine_id="five", boot_id="a"),
        marks=marks,
        members=marks["member/atlas"].spec,
        names=("atlas",),
    )


def test_the_others_are_visited_at_their_recorded_addresses(cluster: FoundCluster, here: NodeReading) -> None:
    assert [target.destination for target in cluster.targets()] == ["ops@10.0.0.5"]
    others = cluster.recorded_targets({here.node: here})
    assert [(target.node, target.destination) for target in others] == [("bench", "root@10.0.0.7")]


def test_everything_there_is_leaves(cluster: FoundCluster, here: NodeReading) -> None:
    seen = cluster.understood(Survey({here.node: here}))
    assert seen.undeclared == {here.node}
    assert set(seen.readings[here.node].marks) == set(here.marks)
    assert cluster.concerns(seen) == []


def test_a_node_without_the_cluster_says_what_it_has(cluster: FoundCluster, here: NodeReading) -> None:
    foreign = tuple(replace(mark, cluster="attic") for mark in here.marks.values())
    other = replace(here, marks={}, members=None, names=(), foreign=foreign)
    (finding, _) = cluster.concerns(Survey({here.node: other}))
    assert finding.code == "NO_SUCH_CLUSTER"
    assert "attic" in finding.why
