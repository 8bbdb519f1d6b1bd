"""A host that is down is named; nothing is deleted on its account, and the rest goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import WorkplaceFactory
from tests.end_to_end.workplace import Workplace, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.hosts import Lab

SOLO = """\
  solo:
    model: gemma
    devices: [spare/cpu]
    context: {context}
    server: {{apiKeys: {{me: {{env: CHAT_KEY}}}}}}
"""


class Cluster:
    """`chat` over two hosts and `solo` on a third."""

    def __init__(self, lab: Lab, workplace: Workplace, source: Path, model: Path) -> None:
        self.lab = lab
        self.workplace = workplace
        self.source = source
        self.model = model

    def declare(self, *, solo_context: int) -> None:
        chat = chat_manifest(
            name="den",
            head="head",
            workers=["left"],
            addresses={host.name: host.address for host in self.lab},
            source=self.source,
            model=self.model,
        )
        self.workplace.write(chat + SOLO.format(context=solo_context))


@pytest.fixture(scope="module")
def cluster(
    lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path
) -> Cluster:
    hosts = lab("head", "left", "spare")
    made = Cluster(hosts, workplace_beside(hosts), llama_source, small_model)
    made.declare(solo_context=1024)
    made.workplace.apply()
    return made


def test_a_host_that_is_down_is_named_and_nothing_is_planned_for_it(cluster: Cluster) -> None:
    cluster.lab["left"].kill()
    outcome = cluster.workplace.expect(5, "diff")
    assert "left" in outcome.stdout
    assert "0 to remove" in outcome.stdout
    document = cluster.workplace.run("diff", "-o", "json").document
    on_left = {change["action"] for change in document["changes"] if change["node"] == "left"}
    assert on_left == {"unknown"}


def test_the_rest_is_applied(cluster: Cluster) -> None:
    cluster.declare(solo_context=2048)
    outcome = cluster.workplace.apply(5)
    assert "left" in outcome.stdout + outcome.stderr
    status = cluster.workplace.run("status", "-o", "json").document
    health = {item["placement"]: item["health"] for item in status["placements"]}
    assert health["solo"] == "ready"
    assert health["chat"] != "ready"


def test_its_silence_can_be_allowed(cluster: Cluster) -> None:
    outcome = cluster.workplace.run("diff", "--allow-unreachable", "left")
    # the head may have noticed the loss and wait for its worker: a pending change, no unreachable node
    assert outcome.code in (0, 2), outcome.stdout + outcome.stderr


def test_a_frozen_host_is_unreachable_within_its_deadline(cluster: Cluster) -> None:
    cluster.lab["spare"].freeze()
    try:
        outcome = cluster.workplace.run("diff", seconds=60)
    finally:
        cluster.lab["spare"].thaw()
    assert outcome.code == 5
    assert "spare" in outcome.stdout


def test_when_it_is_back_the_next_apply_heals(cluster: Cluster) -> None:
    cluster.lab["left"].start()
    cluster.workplace.apply()
    cluster.workplace.expect(0, "diff")
    cluster.workplace.expect(0, "status")
