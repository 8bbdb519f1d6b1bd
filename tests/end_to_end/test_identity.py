"""Names change and machines change: what runs goes on, and nothing is left behind or locked out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.hosts import Lab
from tests.lab.snapshot import difference, snapshot

WORKER, SERVER = "hetctl:{}:{}:worker:pool.service", "hetctl:{}:{}:server.service"


class Cluster:
    """One placement with its head on one host and a worker on another; every name in it may change."""

    def __init__(self, lab: Lab, workplace: Workplace, source: Path, model: Path) -> None:
        self.lab = lab
        self.workplace = workplace
        self.source = source
        self.model = model
        self.before = {host.name: snapshot(host) for host in lab}

    def declare(self, *, worker: str = "left", at: str = "left", **replaced: str) -> None:
        """Write the manifest.

        Arguments:
            worker: Name of the node with the worker.
            at: Host that it is.
            replaced: By a word for people, `old -> new` pieces of the text.
        """
        text = chat_manifest(
            name="den",
            head="head",
            workers=[worker],
            addresses={"head": self.lab["head"].address, worker: self.lab[at].address},
            source=self.source,
            model=self.model,
        )
        for change in replaced.values():
            old, _, new = change.partition(" -> ")
            assert old in text
            text = text.replace(old, new)
        self.workplace.write(text)

    def runs(self, cluster: str = "den", placement: str = "chat") -> list[str]:
        """Return which run of the worker and of the server is going on."""
        units = {"left": WORKER, "head": SERVER}
        return [
            self.lab[host]
            .exec(
                ["systemctl", "show", "--property=InvocationID", "--value", unit.format(cluster, placement)]
            )
            .stdout.strip()
            for host, unit in units.items()
        ]

    def units(self, host: str) -> str:
        """Return what lies in a host's unit directory."""
        return self.lab[host].exec(["sh", "-c", "ls /etc/systemd/system /etc/systemd/system/*.wants"]).stdout

    def answers(self, model: str = "chat") -> bool:
        """Return whether the model answers."""
        return "blue" in answer(self.lab["head"].address, KEY, model=model).lower()


@pytest.fixture(scope="module")
def cluster(
    lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path
) -> Cluster:
    hosts = lab("head", "left", "spare")
    made = Cluster(hosts, workplace_beside(hosts), llama_source, small_model)
    made.declare()
    made.workplace.apply()
    return made


def test_a_machine_declared_twice_is_refused_with_both_lines(cluster: Cluster) -> None:
    cluster.declare(twice="builds: ->   again: {address: left}\nbuilds:")
    for command in (["diff"], ["apply", "--yes"]):
        refused = cluster.workplace.expect(9, *command)
        assert "SAME_MACHINE" in refused.stdout
        assert refused.stdout.count("cluster.yaml:") >= 2
    cluster.declare()
    cluster.workplace.expect(0, "diff")


def test_a_node_with_another_name_keeps_running(cluster: Cluster) -> None:
    before = cluster.runs()
    cluster.declare(worker="west")
    shown = cluster.workplace.expect(2, "diff").stdout
    assert "was worker/chat@left.pool" in shown
    assert "down" not in shown
    cluster.workplace.apply()
    cluster.workplace.expect(0, "diff")
    assert cluster.runs() == before
    marks = cluster.lab["left"].exec(["ls", "/var/lib/hetctl/clusters/den/marks"]).stdout
    assert "left" not in marks


def test_builds_and_models_with_other_names_keep_running(cluster: Cluster) -> None:
    before = cluster.runs()
    cluster.declare(
        worker="west",
        build="  main: { ->   newest: {renamedFrom: main, ",
        model="  gemma: { ->   gem: {renamedFrom: gemma, ",
        use="model: gemma -> model: gem",
    )
    cluster.workplace.apply()
    cluster.workplace.expect(0, "diff")
    assert cluster.runs() == before


NAMED = {
    "build": "  main: { ->   newest: {",
    "model": "  gemma: { ->   gem: {",
    "use": "model: gemma -> model: gem",
}


def test_a_placement_whose_rename_fails_goes_on_under_its_old_name(cluster: Cluster) -> None:
    cluster.declare(
        worker="west",
        rename="  chat:\n ->   talk:\n    renamedFrom: chat\n",
        broken="expect: blue -> expect: zebra crossing",
        **NAMED,
    )
    outcome = cluster.workplace.apply(4)
    assert "go back server/talk" in outcome.stdout + outcome.stderr
    assert cluster.answers()
    for host in ("head", "left"):
        assert "hetctl:den:talk:worker" not in cluster.units(host)
        assert "hetctl:den:talk:server" not in cluster.units(host)
    cluster.declare(worker="west", **NAMED)
    cluster.workplace.run("apply", "--yes", "--prune", seconds=300)
    cluster.workplace.expect(0, "diff")
    assert cluster.answers()


def test_a_placement_with_another_name_leaves_nothing_of_the_old_one(cluster: Cluster) -> None:
    cluster.declare(worker="west", rename="  chat:\n ->   talk:\n    renamedFrom: chat\n", **NAMED)
    assert "- worker" not in cluster.workplace.expect(2, "diff").stdout
    cluster.workplace.apply()
    cluster.workplace.expect(0, "diff")
    assert cluster.answers("talk")
    for host in ("head", "left"):
        assert "hetctl:den:chat" not in cluster.units(host)
        assert "den_chat" not in cluster.lab[host].exec(["nft", "list", "tables"]).stdout


TALK = {**NAMED, "placement": "  chat:\n ->   talk:\n"}


def test_a_cluster_with_another_name_takes_everything_over(cluster: Cluster) -> None:
    cluster.declare(worker="west", name="name: den -> name: lair\nrenamedFrom: den", **TALK)
    cluster.workplace.expect(2, "diff")
    cluster.workplace.apply()
    cluster.workplace.expect(0, "diff")
    assert cluster.answers("talk")
    for host in ("head", "left"):
        assert "hetctl:den" not in cluster.units(host)
        assert "hetctl_den" not in cluster.lab[host].exec(["nft", "list", "tables"]).stdout
        assert cluster.lab[host].exec(["ls", "/var/lib/hetctl/clusters"]).stdout.split() == ["lair"]


LAIR = {**TALK, "name": "name: den -> name: lair"}


def test_a_node_that_is_another_machine_now_leaves_the_old_one_clean(cluster: Cluster) -> None:
    cluster.declare(worker="west", at="spare", **LAIR)
    shown = cluster.workplace.expect(2, "diff").stdout
    assert f"west at {cluster.lab['left'].address}" in shown
    cluster.workplace.apply(0, "--prune")
    cluster.workplace.expect(0, "diff")
    assert cluster.answers("talk")
    assert difference(cluster.before["left"], snapshot(cluster.lab["left"])) == []


MARKS = "/var/lib/hetctl/clusters/lair/marks"


def test_what_a_newer_version_left_is_refused_and_stays(cluster: Cluster) -> None:
    head = cluster.lab["head"]
    for before, after in (("1", "2"), ("2", "1")):
        version = f's/"formatVersion": *{before}/"formatVersion":{after}/'
        head.exec(["sh", "-c", f"sed -i '{version}' {MARKS}/*"])
        if after == "2":
            for command in (["diff"], ["apply", "--yes", "--prune"], ["destroy", "--confirm", "lair"]):
                assert "newer hetctl" in cluster.workplace.expect(9, *command).stdout
            assert cluster.answers("talk")
    cluster.workplace.expect(0, "diff")


def test_destroy_with_damaged_marks_leaves_nothing(cluster: Cluster) -> None:
    spare, head = cluster.lab["spare"], cluster.lab["head"]
    spare.exec(["sh", "-c", f"truncate --size=100 {MARKS}/*"])
    head.exec(["sh", "-c", f"truncate --size=0 {MARKS}/server* {MARKS}/model*"])
    cluster.workplace.expect(0, "destroy", "--confirm", "lair", seconds=300)
    for host in cluster.lab:
        left = difference(cluster.before[host.name], snapshot(host))
        assert not left, "\n".join([host.name, *left])
    tables = cluster.lab["spare"].exec(["nft", "list", "tables"]).stdout
    assert "hetctl" not in tables
