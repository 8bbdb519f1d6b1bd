"""Two clusters on the same hosts: neither knows more of the other than that it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.hosts import Lab
from tests.lab.snapshot import difference, snapshot

SECOND = "attic.yaml"
WORKER = "hetctl:den:chat:worker:pool.service"
SERVER = "hetctl:den:chat:server.service"


class Neighbours:
    """Cluster `den`, and `attic` with the same build and model on the same hosts and a port of its own."""

    def __init__(self, lab: Lab, workplace: Workplace, source: Path, model: Path) -> None:
        self.lab = lab
        self.workplace = workplace
        self.source = source
        self.model = model
        self.before = {host.name: snapshot(host) for host in lab}
        self.workplace.write(self.text("den"))
        self.write_second(self.text("attic", port=8090))

    def text(self, name: str, *, port: int = 8080) -> str:
        """Return the manifest of a cluster."""
        text = chat_manifest(
            name=name,
            head="head",
            workers=["left"],
            addresses={host.name: host.address for host in self.lab},
            source=self.source,
            model=self.model,
        )
        return text.replace("server: {", f"server: {{port: {port}, ")

    def write_second(self, text: str) -> None:
        """Write the manifest of the second cluster."""
        (self.workplace.directory / SECOND).write_text(text)

    def runs(self) -> list[str]:
        """Return which runs of the first cluster's processes are going on."""
        asked = ["systemctl", "show", "--property=InvocationID", "--value"]
        places = {"left": WORKER, "head": SERVER}
        return [self.lab[host].exec([*asked, unit]).stdout.strip() for host, unit in places.items()]


@pytest.fixture(scope="module")
def both(
    lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path
) -> Neighbours:
    hosts = lab("head", "left")
    made = Neighbours(hosts, workplace_beside(hosts), llama_source, small_model)
    made.workplace.apply()
    return made


def test_another_name_is_another_cluster_that_touches_nothing(both: Neighbours) -> None:
    before = both.runs()
    both.write_second(both.text("attic"))  # with the port that `den` has
    shown = both.workplace.expect(9, "diff", SECOND).stdout
    assert "OTHER_CLUSTER" in shown
    assert "renamedFrom: den" in shown
    assert "! server/chat" in shown
    assert not any(line.lstrip().startswith("- ") for line in shown.splitlines())
    assert both.runs() == before
    both.write_second(both.text("attic", port=8090))


def test_a_second_cluster_comes_and_goes_beside_the_first(both: Neighbours) -> None:
    before = both.runs()
    both.workplace.apply(0, SECOND)
    both.workplace.expect(0, "diff", SECOND)
    both.workplace.expect(0, "diff")
    assert both.runs() == before
    address = both.lab["head"].address
    for port in (8080, 8090):
        assert "blue" in answer(address, KEY, port=port).lower()
    both.workplace.expect(0, "destroy", "--confirm", "attic", SECOND, seconds=300)
    both.workplace.expect(0, "diff")
    assert both.runs() == before
    assert "blue" in answer(address, KEY).lower()
    for host in both.lab:
        assert host.exec(["ls", "/var/lib/hetctl/clusters"]).stdout.split() == ["den"]


def test_a_cluster_without_a_manifest_is_destroyed_from_one_of_its_nodes(both: Neighbours) -> None:
    both.workplace.manifest.unlink()
    node = f"root@{both.lab['left'].address}"
    wrong = both.workplace.expect(9, "destroy", "--node", node, "--cluster", "attic", "--confirm", "attic")
    assert "it has den" in wrong.stdout
    both.workplace.expect(0, "destroy", "--node", node, "--cluster", "den", "--confirm", "den", seconds=300)
    for host in both.lab:
        left = difference(both.before[host.name], snapshot(host))
        assert not left, "\n".join([host.name, *left])
