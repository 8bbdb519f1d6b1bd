"""A change that does not work goes back to what worked, says so, and is no success."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.hosts import Lab
from tests.lab.snapshot import difference, snapshot


class Cluster:
    """`chat` with its head on one host and a worker on another."""

    def __init__(self, lab: Lab, workplace: Workplace, source: Path, model: Path) -> None:
        self.lab = lab
        self.workplace = workplace
        self.source = source
        self.model = model
        self.before = {host.name: snapshot(host) for host in lab}

    def declare(self, **changes: str) -> None:
        """Write the manifest with pieces of its text replaced."""
        text = chat_manifest(
            name="den",
            head="head",
            workers=["left"],
            addresses={host.name: host.address for host in self.lab},
            source=self.source,
            model=self.model,
        )
        for key, value in changes.items():
            lines = [
                line if not line.strip().startswith(f"{key}:") else f"    {key}: {value}"
                for line in text.splitlines()
            ]
            text = "\n".join(lines) + "\n"
            if not any(line.strip().startswith(f"{key}:") for line in lines):
                text += f"    {key}: {value}\n"
        self.workplace.write(text)

    def answers(self) -> bool:
        """Return whether the model answers."""
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


SERVER = "hetctl:den:chat:server.service"
INVOCATION = ["systemctl", "show", "--property=InvocationID", "--value", SERVER]

BROKEN = {
    "a server that does not start": {"args": '["--no-such-flag"]', "context": "1024"},
    "a server that answers wrong": {
        "ready": '{prompt: "Reply with the single word: blue", expect: zebra crossing}',
        "context": "1024",
    },
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_change_goes_back_by_itself(cluster: Cluster, what: str) -> None:
    cluster.declare(**BROKEN[what])
    outcome = cluster.workplace.apply(4)
    assert "go back server/chat" in outcome.stdout + outcome.stderr
    assert cluster.answers()
    # the manifest still asks for what did not work
    assert "context 2048 -> 1024" in cluster.workplace.expect(2, "diff").stdout


def test_what_came_back_is_what_was_there(cluster: Cluster) -> None:
    cluster.declare()
    cluster.workplace.expect(0, "diff")
    cluster.workplace.expect(0, "status")


def test_when_going_back_fails_too_everything_stops_and_both_are_told(cluster: Cluster) -> None:
    head = cluster.lab["head"]
    programs = "/var/lib/hetctl/builds/*/llama-server"
    watch = (
        f'while [ "$(systemctl is-active {SERVER})" != inactive ]; do sleep 0.05; done; chmod 644 {programs}'
    )
    cluster.declare(context="1024", args='["--no-such-flag"]')
    head.exec(["systemd-run", "--collect", "--quiet", "sh", "-c", watch])
    failed = cluster.workplace.apply(4)
    assert "start server/chat" in failed.stdout
    assert "go back server/chat" in failed.stdout
    for host in cluster.lab:
        lines = host.exec(["systemctl", "list-units", "--plain", "--no-legend", "--state=active,activating"])
        assert ":server.service" not in lines.stdout
        assert ":worker" not in lines.stdout
    head.exec(["sh", "-c", f"chmod 755 {programs}"])
    cluster.declare()
    cluster.workplace.apply()
    assert cluster.answers()


@pytest.mark.parametrize("host", ["head", "left"])
def test_a_full_disk_stops_nothing(cluster: Cluster, host: str) -> None:
    running = cluster.lab["head"].exec(INVOCATION).stdout
    cluster.declare(context="1024")
    cluster.lab[host].exec(["sh", "-c", "cat /dev/zero > /fill || :"], timeout=120)
    try:
        outcome = cluster.workplace.apply(4)
        assert "No space left on device" in outcome.stdout
        assert cluster.answers()
        assert cluster.lab["head"].exec(INVOCATION).stdout == running
        cluster.workplace.expect(0, "status")
    finally:
        cluster.lab[host].exec(["rm", "/fill"])
    cluster.workplace.apply()
    cluster.declare()
    cluster.workplace.apply()


def test_a_first_apply_that_fails_leaves_nothing_running(cluster: Cluster) -> None:
    cluster.workplace.expect(0, "destroy", "--confirm", "den", seconds=300)
    cluster.declare(args='["--no-such-flag"]')
    cluster.workplace.apply(4)
    for host in cluster.lab:
        units = host.exec(
            ["systemctl", "list-units", "--all", "--plain", "--no-legend", "--state=active,activating"]
        ).stdout
        assert "hetctl:den:chat:server" not in units
        assert "hetctl:den:chat:worker" not in units
    cluster.declare()
    cluster.workplace.apply()
    assert cluster.answers()


def test_destroy_leaves_nothing(cluster: Cluster) -> None:
    cluster.workplace.expect(0, "destroy", "--confirm", "den", seconds=300)
    for host in cluster.lab:
        assert difference(cluster.before[host.name], snapshot(host)) == []
