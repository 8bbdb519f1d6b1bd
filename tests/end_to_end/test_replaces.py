"""A placement takes the place of something made by hand, and gives it back when it fails or goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.host import Host
from tests.lab.hosts import Lab
from tests.lab.process import wait_until
from tests.lab.snapshot import difference, snapshot

LISTEN = "import socket, time; s = socket.create_server(('0.0.0.0', 8080)); time.sleep(90000)"
UNIT = f"""[Service]
ExecStart=/usr/bin/python3 -c "{LISTEN}"
[Install]
WantedBy=multi-user.target
"""
PROGRAM = "/opt/old-llama"


class Home:
    """One host, on which something else serves the port that `chat` is to have."""

    def __init__(self, lab: Lab, workplace: Workplace, source: Path, model: Path) -> None:
        self.lab, self.workplace = lab, workplace
        self.host = lab["head"]
        self._source, self._model = source, model

    def declare(self, replaces: str, *, expect: str = "blue") -> None:
        text = chat_manifest(
            name="den",
            head="head",
            workers=["head"],
            addresses={"head": self.host.address},
            source=self._source,
            model=self._model,
            extra=f"    replaces: {{{replaces}}}" if replaces else "",
        )
        self.workplace.write(text.replace("expect: blue", f"expect: {expect}"))

    def answers(self) -> bool:
        return "blue" in answer(self.host.address, KEY).lower()


def start_unit(host: Host) -> None:
    host.exec(["sh", "-c", "cat > /etc/systemd/system/old-llama.service"], text=UNIT)
    host.exec(["systemctl", "daemon-reload"])
    host.exec(["systemctl", "enable", "--now", "old-llama.service"])


def unit_stands(host: Host) -> bool:
    states = host.exec(
        ["sh", "-c", "systemctl is-active old-llama.service; systemctl is-enabled old-llama.service; :"]
    ).stdout
    return states.split() == ["active", "enabled"]


def unit_rests(host: Host) -> bool:
    states = host.exec(
        ["sh", "-c", "systemctl is-active old-llama.service; systemctl is-enabled old-llama.service; :"]
    ).stdout
    return states.split() == ["inactive", "disabled"]


def start_process(host: Host) -> None:
    host.exec(["sh", "-c", f"cp -L $(readlink -f /usr/bin/python3) {PROGRAM}"])
    command = ["systemd-run", "--scope", "--quiet", "--", "env", "WITH=care", PROGRAM, "-c", LISTEN]
    host.exec(["sh", "-c", 'setsid "$@" >/dev/null 2>&1 &', "sh", *command])
    wait_until(lambda: process_stands(host), "the old process runs", seconds=10)


def processes(host: Host) -> list[str]:
    script = f'for p in /proc/[0-9]*; do [ "$(readlink $p/exe)" = {PROGRAM} ] && echo ${{p#/proc/}}; done; :'
    return host.exec(["sh", "-c", script]).stdout.split()


def process_stands(host: Host) -> bool:
    found = processes(host)
    if len(found) != 1:
        return False
    return "WITH=care" in host.exec(["cat", f"/proc/{found[0]}/environ"]).stdout.split("\0")


def process_rests(host: Host) -> bool:
    return processes(host) == []


KINDS: dict[str, tuple[str, Callable[[Host], None], Callable[[Host], bool], Callable[[Host], bool]]] = {
    "unit": ("unit: old-llama.service", start_unit, unit_stands, unit_rests),
    "process": (f"process: {PROGRAM}", start_process, process_stands, process_rests),
}


@pytest.fixture(scope="module")
def home(lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path) -> Home:
    hosts = lab("head")
    return Home(hosts, workplace_beside(hosts), llama_source, small_model)


@pytest.mark.parametrize("kind", KINDS)
def test_it_makes_room_and_comes_back(home: Home, kind: str) -> None:
    replaces, start, stands, rests = KINDS[kind]
    start(home.host)
    before = snapshot(home.host)

    home.declare("")
    refused = home.workplace.expect(9, "diff")
    assert "port 8080 belongs to" in refused.stdout
    assert stands(home.host)

    home.declare(replaces, expect="xyzzy")
    shown = home.workplace.expect(2, "diff").stdout
    assert "stop and disable" in shown
    home.workplace.apply(4)
    wait_until(lambda: stands(home.host), "what was there is back after a failed proof", seconds=20)

    home.declare(replaces)
    home.workplace.apply()
    assert home.answers()
    assert rests(home.host)
    home.workplace.expect(0, "diff")

    home.workplace.expect(0, "destroy", "--confirm", "den", seconds=300)
    wait_until(lambda: stands(home.host), "what was there is back", seconds=20)
    assert difference(before, snapshot(home.host)) == []
    home.host.exec(["systemctl", "disable", "--now", "old-llama.service"], check=kind == "unit")
    for process in processes(home.host):
        home.host.exec(["kill", process])


def test_it_is_stopped_again_when_somebody_starts_it(home: Home) -> None:
    start_unit(home.host)
    home.declare("unit: old-llama.service")
    home.workplace.apply()
    home.host.exec(["systemctl", "enable", "old-llama.service"])
    assert "starts at boot again" in home.workplace.expect(2, "diff").stdout
    home.workplace.apply()
    assert unit_rests(home.host)
    assert home.answers()


def test_it_is_remembered_when_the_placement_and_the_cluster_get_other_names(home: Home) -> None:
    home.declare("unit: old-llama.service")
    text = home.workplace.manifest.read_text()
    named = text.replace("name: den", "name: lair").replace("  chat:\n", "  talk:\n")
    renaming = named.replace("name: lair", "name: lair\nrenamedFrom: den")
    home.workplace.write(renaming.replace("  talk:\n", "  talk:\n    renamedFrom: chat\n"))
    home.workplace.apply()
    assert unit_rests(home.host)
    home.workplace.write(named)
    home.workplace.expect(0, "diff")
    home.workplace.expect(0, "destroy", "--confirm", "lair", seconds=300)
    wait_until(lambda: unit_stands(home.host), "what was there is back", seconds=20)
    home.declare("unit: old-llama.service")
    home.workplace.apply()


def test_it_stays_stopped_when_only_the_consent_goes(home: Home) -> None:
    home.declare("")
    home.workplace.apply(0, "--prune")
    assert unit_rests(home.host)
    home.workplace.expect(0, "diff")
    home.workplace.expect(0, "destroy", "--confirm", "den", seconds=300)
    assert unit_rests(home.host)
