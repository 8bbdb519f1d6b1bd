"""A placement can be stopped and started, and a group runs one of its members."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.hosts import Lab
from tests.lab.snapshot import difference, snapshot

CODE = """\
  code:
    model: gemma
    devices: [right/pool]
    context: 1024
    group: evening
    server: {node: head, apiKeys: {me: {env: CHAT_KEY}}}
    ready: {prompt: "Reply with the single word: blue", expect: EXPECT}
"""


class Evening:
    """`chat` and `code` share a CPU worker and the port 8080."""

    def __init__(self, lab: Lab, workplace: Workplace, source: Path, model: Path) -> None:
        self.lab, self.workplace = lab, workplace
        self.before = {host.name: snapshot(host) for host in lab}
        self._manifest = chat_manifest(
            name="den",
            head="head",
            workers=["right"],
            addresses={host.name: host.address for host in lab},
            source=source,
            model=model,
            extra="    group: evening",
        )
        self.write()

    def write(self, *, code: str = CODE.replace("EXPECT", "blue"), chat: str = "") -> None:
        self.workplace.write(self._manifest + chat + code)

    def answers(self, placement: str) -> bool:
        return "blue" in answer(self.lab["head"].address, KEY, model=placement).lower()

    def units(self, host: str) -> set[str]:
        """Return the processes that run on a host."""
        command = ["systemctl", "list-units", "--plain", "--no-legend", "--state=active", "hetctl:*"]
        lines = self.lab[host].exec(command).stdout.splitlines()
        names = {line.split()[0].removesuffix(".service") for line in lines if line.strip()}
        return {name for name in names if not name.endswith((":firewall", ":watch"))}


@pytest.fixture(scope="module")
def evening(
    lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path
) -> Evening:
    hosts = lab("head", "right")
    made = Evening(hosts, workplace_beside(hosts), llama_source, small_model)
    made.workplace.apply()
    return made


def test_the_first_member_runs(evening: Evening) -> None:
    assert evening.answers("chat")
    assert evening.units("right") == {"hetctl:den:chat:worker:pool"}
    assert evening.units("head") == {"hetctl:den:chat:server"}
    status = evening.workplace.expect(0, "status", "-o", "json").document
    assert {item["placement"]: item["health"] for item in status["placements"]} == {
        "chat": "ready",
        "code": "stopped",
    }
    evening.workplace.expect(0, "diff")


def test_a_second_one_is_not_started_beside_it(evening: Evening) -> None:
    refused = evening.workplace.expect(9, "start", "--yes", "code")
    assert "hetctl switch code" in refused.stdout + refused.stderr
    assert evening.answers("chat")


def test_another_member_takes_over_and_that_is_no_drift(evening: Evening) -> None:
    shown = evening.workplace.expect(0, "switch", "--yes", "code", seconds=300)
    assert "chat" in shown.stdout
    assert evening.answers("code")
    assert evening.units("right") == {"hetctl:den:code:worker:pool"}
    evening.workplace.expect(0, "diff")
    evening.lab["head"].exec(["systemctl", "stop", "hetctl:den:code:server.service"])
    assert "code" in evening.workplace.expect(2, "diff").stdout
    evening.workplace.apply()
    assert evening.answers("code")


def test_what_was_stopped_stays_so_over_a_reboot(evening: Evening) -> None:
    enabled = ["sh", "-c", "systemctl is-enabled hetctl:den:chat:server.service || :"]
    assert evening.lab["head"].exec(enabled).stdout.strip() == "disabled"


def test_one_that_does_not_answer_gives_the_place_back(evening: Evening) -> None:
    evening.write(code=CODE.replace("EXPECT", "xyzzy"))
    evening.workplace.expect(0, "switch", "--yes", "chat", seconds=300)
    failed = evening.workplace.expect(4, "switch", "--yes", "code", seconds=300)
    assert "server/code" in failed.stdout
    assert evening.answers("chat")
    assert evening.units("right") == {"hetctl:den:chat:worker:pool"}
    assert evening.units("head") == {"hetctl:den:chat:server"}
    evening.write()
    evening.workplace.apply()
    evening.workplace.expect(0, "diff")


def test_stop_and_start(evening: Evening) -> None:
    shown = evening.workplace.expect(0, "stop", "--yes", "chat", seconds=300)
    assert "stopped until it is started again" in shown.stdout
    with pytest.raises(openai.APIConnectionError):
        evening.answers("chat")
    assert evening.units("head") | evening.units("right") == set()
    evening.workplace.expect(0, "diff")  # a group of which none runs is as declared
    evening.workplace.expect(0, "status")
    evening.workplace.expect(0, "start", "--yes", "chat", seconds=300)
    assert evening.answers("chat")


def test_what_the_manifest_stops_is_stopped(evening: Evening) -> None:
    evening.write(chat="    state: stopped\n")
    shown = evening.workplace.expect(2, "diff").stdout
    assert "state running -> stopped (cluster.yaml:" in shown
    evening.workplace.apply()
    assert evening.units("head") | evening.units("right") == set()
    refused = evening.workplace.expect(64, "start", "--yes", "chat")
    assert "cluster.yaml:" in refused.stderr
    evening.workplace.expect(0, "diff")


def test_destroy_leaves_nothing(evening: Evening) -> None:
    evening.workplace.expect(0, "destroy", "--confirm", "den", seconds=300)
    for host in evening.lab:
        assert difference(evening.before[host.name], snapshot(host)) == []
