"""A worker's port is closed to bystanders before, during and after every change, also one that goes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.host import Host
from tests.lab.hosts import Lab
from tests.lab.network import OPERATOR_ADDRESS

KNOCK = """
import os, socket, sys
address, ports = sys.argv[1], [int(port) for port in sys.argv[2:]]
tried = 0
while tried < 4 or not os.path.exists("/run/enough"):
    for port in ports:
        try:
            socket.create_connection((address, port), timeout=0.2).close()
            print("open", port, flush=True)
        except OSError:
            pass
    tried += 1
print("tried", tried)
"""


class Doors:
    """`chat` with a worker on `left`; `spare` has no business with it."""

    def __init__(self, lab: Lab, workplace: Workplace, source: Path, model: Path) -> None:
        self.lab, self.workplace = lab, workplace
        self._source, self._model = source, model

    def declare(self, port: int, *, expect: str = "blue", allow: str = "") -> None:
        text = chat_manifest(
            name="den",
            head="head",
            workers=["left"],
            addresses={host.name: host.address for host in self.lab},
            source=self._source,
            model=self._model,
            extra=f"    rpc: {{port: {port}}}",
        )
        text = text.replace("expect: blue", f"expect: {expect}")
        if allow:
            text = text.replace("server: {", f"server: {{allowFrom: [{allow}], ")
        self.workplace.write(text)

    @contextmanager
    def knocking(self, host: str, *ports: int) -> Iterator[list[str]]:
        """Try to connect from `spare` all the time; at the end the list holds what was open."""
        spare, target = self.lab["spare"], self.lab[host].address
        spare.exec(["rm", "-f", "/run/enough"])
        said: list[str] = []

        def knock() -> None:
            command = ["python3", "-c", KNOCK, target, *map(str, ports)]
            said.extend(spare.exec(command, timeout=300).stdout.splitlines())

        thread = threading.Thread(target=knock)
        thread.start()
        found: list[str] = []
        try:
            yield found
        finally:
            spare.exec(["touch", "/run/enough"])
            thread.join()
        assert said[-1].startswith("tried ")
        assert int(said[-1].split()[1]) > 3
        found += sorted(set(said[:-1]))


def listens(host: Host) -> set[int]:
    lines = host.exec(["ss", "-Htln"]).stdout.splitlines()
    return {int(line.split()[3].rpartition(":")[2]) for line in lines}


@pytest.fixture(scope="module")
def doors(
    lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path
) -> Doors:
    hosts = lab("head", "left", "spare")
    made = Doors(hosts, workplace_beside(hosts), llama_source, small_model)
    made.declare(20100)
    made.workplace.apply()
    return made


def test_a_port_that_nobody_filters_would_be_seen(doors: Doors) -> None:
    with doors.knocking("left", 22, 20100) as found:
        pass
    assert found == ["open 22"]


def test_no_port_is_open_while_it_changes(doors: Doors) -> None:
    doors.declare(20200)
    with doors.knocking("left", 20100, 20200) as found:
        doors.workplace.apply()
    assert found == []
    assert listens(doors.lab["left"]) & {20100, 20200} == {20200}
    doors.workplace.expect(0, "diff")


def test_no_port_is_open_after_a_change_that_went_back(doors: Doors) -> None:
    doors.declare(20300, expect="xyzzy")
    with doors.knocking("left", 20200, 20300) as found:
        doors.workplace.apply(4)
        assert listens(doors.lab["left"]) & {20200, 20300} == {20200}
        assert "blue" in answer(doors.lab["head"].address, KEY).lower()
    assert found == []
    doors.declare(20200)
    doors.workplace.expect(0, "diff")


def test_clients_that_were_let_in_are_kept_out_again_when_it_goes_back(doors: Doors) -> None:
    operator, spare = OPERATOR_ADDRESS, doors.lab["spare"].address
    doors.declare(20200, allow=operator)
    doors.workplace.apply()
    doors.declare(20300, expect="xyzzy", allow=f"{operator}, {spare}")
    with doors.knocking("head", 8080) as found:
        doors.workplace.apply(4)
    with doors.knocking("head", 8080) as afterwards:
        pass
    assert afterwards == []
    assert found in ([], ["open 8080"])  # the new generation let it in while it was tried
    doors.declare(20200, allow=operator)
    doors.workplace.expect(0, "diff")
