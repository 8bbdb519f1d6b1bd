"""What changes in the manifest changes on the nodes, with consent, and nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.hosts import Lab
from tests.lab.snapshot import difference, snapshot

SOLO = """\
  solo:
    model: gemma
    devices: [spare/cpu]
    context: 512
    server: {apiKeys: {me: {env: CHAT_KEY}}, port: 8090}
"""


class Cluster:
    """`chat` over some of the hosts, and `solo` on one of its own."""

    def __init__(self, lab: Lab, workplace: Workplace, source: Path, model: Path) -> None:
        self.lab = lab
        self.workplace = workplace
        self.source = source
        self.model = model
        self.before = {host.name: snapshot(host) for host in lab}

    def declare(
        self, head: str, workers: Sequence[str], *, extra: str = "", nodes: Sequence[str] = ()
    ) -> None:
        """Write a manifest; `nodes` are those it names, by default all."""
        addresses = {host.name: host.address for host in self.lab if not nodes or host.name in nodes}
        chat = chat_manifest(
            name="den",
            head=head,
            workers=workers,
            addresses=addresses,
            source=self.source,
            model=self.model,
            extra=extra,
        )
        self.workplace.write(chat + SOLO)

    def started(self, host: str, unit: str) -> str:
        """Return which run of a unit is going on."""
        return self.lab[host].exec(["systemctl", "show", "--property=InvocationID", "--value", unit]).stdout


@pytest.fixture(scope="module")
def cluster(
    lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path
) -> Cluster:
    hosts = lab("head", "left", "right", "spare")
    made = Cluster(hosts, workplace_beside(hosts), llama_source, small_model)
    made.declare("head", ["left", "right"])
    made.workplace.apply()
    return made


CHANGES = {
    "slots": ("    slots: 2", "slots 1 -> 2"),
    "KV types": ("    kvCache: {k: q8_0, v: q8_0}", "k f16 -> q8_0"),
    "layers": ("    layers: {left/pool: 12, right/pool: 6}", "left/pool"),
    "an alias": ("    alias: gemma", "alias chat -> gemma"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_says_why_and_restarts_only_its_placement(cluster: Cluster, what: str) -> None:
    extra, told = CHANGES[what]
    solo = "hetctl:den:solo:server.service"
    before = cluster.started("spare", solo)
    cluster.declare("head", ["left", "right"], extra=extra)
    found = cluster.workplace.expect(2, "diff")
    assert told in found.stdout
    assert "cluster.yaml:" in found.stdout
    assert "solo" not in found.stdout
    cluster.workplace.apply()
    cluster.workplace.expect(0, "diff")
    assert cluster.started("spare", solo) == before


def test_a_node_that_is_not_declared_any_more_is_cleaned_with_consent(cluster: Cluster) -> None:
    cluster.declare("head", ["left"], nodes=["head", "left", "spare"])
    found = cluster.workplace.expect(2, "diff")
    assert "- worker/chat@right.pool" in found.stdout
    cluster.workplace.run("apply", "--yes", seconds=300)
    # without --prune it is left as it is
    assert cluster.lab["right"].exec(["test", "-d", "/var/lib/hetctl"], check=False).returncode == 0
    cluster.workplace.apply(0, "--prune")
    cluster.workplace.expect(0, "diff")
    assert difference(cluster.before["right"], snapshot(cluster.lab["right"])) == []
    assert "blue" in answer(cluster.lab["head"].address, KEY).lower()


def test_a_node_that_is_down_while_it_is_removed_stays_recorded(cluster: Cluster) -> None:
    cluster.declare("head", ["left", "right"])
    cluster.workplace.apply()
    cluster.lab["right"].kill()
    cluster.declare("head", ["left"], nodes=["head", "left", "spare"])
    outcome = cluster.workplace.apply(5, "--prune")
    assert "right" in outcome.stdout + outcome.stderr
    cluster.lab["right"].start()
    assert "right" in cluster.workplace.expect(2, "diff").stdout
    cluster.workplace.apply(0, "--prune")
    assert difference(cluster.before["right"], snapshot(cluster.lab["right"])) == []
    cluster.workplace.expect(0, "diff")


def test_a_placement_moves_to_another_head(cluster: Cluster) -> None:
    cluster.declare("left", ["left", "right"])
    cluster.workplace.apply(0, "--prune")
    cluster.workplace.expect(0, "diff")
    assert "blue" in answer(cluster.lab["left"].address, KEY).lower()
    units = cluster.lab["head"].exec(["sh", "-c", "ls /etc/systemd/system"]).stdout
    assert "hetctl:den:chat" not in units


def test_a_placement_that_is_not_declared_any_more_goes_with_consent(cluster: Cluster) -> None:
    text = cluster.workplace.manifest.read_text()
    cluster.workplace.write(text.replace(SOLO, ""))
    assert "- server/solo" in cluster.workplace.expect(2, "diff").stdout
    cluster.workplace.apply(0, "--prune")
    cluster.workplace.expect(0, "diff")
    assert "hetctl:den:solo" not in cluster.lab["spare"].exec(["sh", "-c", "ls /etc/systemd/system"]).stdout


def test_destroy_leaves_nothing(cluster: Cluster) -> None:
    cluster.workplace.expect(0, "destroy", "--confirm", "den", seconds=300)
    for host in cluster.lab:
        assert difference(cluster.before[host.name], snapshot(host)) == []
