"""From one build to the next and back: nothing stops before the new one was made and verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.hosts import Lab
from tests.lab.snapshot import difference, snapshot

SERVER = "hetctl:den:chat:server.service"
NEXT_BUILD = "b11435"
"""The same source under the next number: what differs is compiled anew, the compiler cache has the rest."""


class Cluster:
    """`chat` with its head on one host and a worker on another."""

    def __init__(self, lab: Lab, workplace: Workplace, source: Path, model: Path) -> None:
        self.lab, self.workplace = lab, workplace
        self._source, self._model = source, model
        self.before = {host.name: snapshot(host) for host in lab}

    def declare(self, version: str = "b11434", *, cmake: str = "", context: int = 2048) -> None:
        text = chat_manifest(
            name="den",
            head="head",
            workers=["left"],
            addresses={host.name: host.address for host in self.lab},
            source=self._source,
            model=self._model,
        )
        text = text.replace("context: 2048", f"context: {context}")
        self.workplace.write(text.replace("version: b11434", f"version: {version}{cmake}"))

    def shown(self, name: str) -> str:
        """Return a property of the server's unit."""
        command = ["systemctl", "show", f"--property={name}", "--value", SERVER]
        return self.lab["head"].exec(command).stdout.strip()

    def program(self) -> str:
        """Return what the server's process runs."""
        return self.lab["head"].exec(["readlink", f"/proc/{self.shown('MainPID')}/exe"]).stdout.strip()

    def answers(self) -> bool:
        return "blue" in answer(self.lab["head"].address, KEY).lower()


@pytest.fixture(scope="module")
def cluster(
    lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path
) -> Cluster:
    hosts = lab("head", "left")
    made = Cluster(hosts, workplace_beside(hosts), llama_source, small_model)
    made.declare()
    made.workplace.apply()
    return made


BROKEN = {
    "does not compile": ', cmake: {CMAKE_CXX_FLAGS: "-include /nonexistent.h"}',
    "does not run": ', cmake: {CMAKE_EXE_LINKER_FLAGS: "-Wl,--dynamic-linker=/nonexistent"}',
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_build_that_is_broken_stops_nothing(cluster: Cluster, what: str) -> None:
    running = cluster.shown("InvocationID")
    cluster.declare(cmake=BROKEN[what])
    failed = cluster.workplace.apply(4)
    assert "failed" in failed.stdout
    assert cluster.shown("InvocationID") == running
    assert cluster.answers()
    cluster.declare()
    cluster.workplace.apply(0)
    assert cluster.shown("InvocationID") == running
    cluster.workplace.expect(0, "diff")


def test_an_upgrade_and_back_and_forth(cluster: Cluster) -> None:
    first = cluster.program()
    cluster.declare(NEXT_BUILD)
    assert "version b11434 -> b11435 (cluster.yaml:" in cluster.workplace.expect(2, "diff").stdout
    cluster.workplace.apply()
    second = cluster.program()
    assert second != first
    assert cluster.answers()
    cluster.workplace.expect(0, "diff")

    cluster.workplace.expect(0, "rollback", "--yes", "chat", seconds=300)
    assert cluster.program() == first
    assert cluster.answers()
    cluster.workplace.expect(2, "diff")  # the manifest still wants the new one

    cluster.workplace.apply()
    assert cluster.program() == second
    cluster.workplace.expect(0, "diff")


def test_a_change_of_a_setting_is_rolled_back_as_well(cluster: Cluster) -> None:
    cluster.declare(NEXT_BUILD, context=1024)
    cluster.workplace.apply()
    shown = cluster.workplace.expect(0, "rollback", "--yes", "chat", seconds=300)
    assert "context 1024 -> 2048" in shown.stdout
    assert cluster.answers()
    cluster.declare(NEXT_BUILD)
    cluster.workplace.expect(0, "diff")


def test_restart(cluster: Cluster) -> None:
    running = cluster.shown("InvocationID")
    cluster.workplace.expect(0, "restart", "--yes", "chat", seconds=300)
    assert cluster.shown("InvocationID") != running
    assert cluster.answers()
    cluster.workplace.expect(0, "diff")


def test_destroy_leaves_nothing(cluster: Cluster) -> None:
    cluster.workplace.expect(0, "destroy", "--confirm", "den", seconds=300)
    for host in cluster.lab:
        assert difference(cluster.before[host.name], snapshot(host)) == []
