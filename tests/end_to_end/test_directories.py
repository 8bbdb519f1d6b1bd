"""Directories of a node: those that services could not use are refused early; destroy leaves none of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.host import Host
from tests.lab.hosts import Lab
from tests.lab.snapshot import difference, snapshot


class Place:
    """One host whose directories are chosen, and an operator beside it."""

    def __init__(self, lab: Lab, workplace: Workplace, source: Path, model: Path) -> None:
        self.host: Host = lab["head"]
        self.workplace = workplace
        self._source, self._model = source, model

    def declare(self, paths: str = "", *, context: int = 2048) -> None:
        text = chat_manifest(
            name="den",
            head="head",
            workers=["head"],
            addresses={"head": self.host.address},
            source=self._source,
            model=self._model,
        ).replace("context: 2048", f"context: {context}")
        chosen = f"paths: {{{paths}}}, cpuWorkers:" if paths else "cpuWorkers:"
        self.workplace.write(text.replace("cpuWorkers:", chosen))

    def sent(self) -> list[str]:
        """Apply and return what was said while something was sent."""
        events = self.workplace.directory / "events.jsonl"
        self.workplace.apply(0, "--events", str(events))
        return [line for line in events.read_text().splitlines() if "sending" in line]


@pytest.fixture(scope="module")
def place(
    lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path
) -> Place:
    hosts = lab("head")
    return Place(hosts, workplace_beside(hosts), llama_source, small_model)


def test_kept_models_are_not_sent_again_and_go_with_the_next_destroy(place: Place) -> None:
    before = snapshot(place.host)
    place.declare("models: /data/models, builds: /opt/llama")
    assert place.sent()
    place.workplace.expect(0, "destroy", "--keep-models", "--confirm", "den")
    left = [line.split()[1].rstrip(":") for line in difference(before, snapshot(place.host))]
    assert any(path.endswith(".gguf") for path in left)
    assert not [path for path in left if path.startswith(("/etc/systemd", "/opt"))]
    assert not [line for line in place.sent() if "gemma" in line]
    place.workplace.expect(0, "destroy", "--keep-models", "--confirm", "den")
    place.workplace.expect(0, "destroy", "--confirm", "den")
    assert difference(before, snapshot(place.host)) == []


@pytest.mark.parametrize(
    ("paths", "prepare", "undo", "says"),
    [
        (
            "models: /data/private/models",
            "mkdir -m 755 -p /data && mkdir -m 700 /data/private",
            "rm -r /data",
            "/data/private is closed to others",
        ),
        (
            "builds: /data/builds",
            "mkdir -m 755 -p /data && mount -t tmpfs -o noexec,mode=755 none /data",
            "umount /data && rmdir /data",
            "mounted noexec",
        ),
    ],
    ids=["closed", "noexec"],
)
def test_a_directory_that_services_cannot_use_is_refused_before_anything_stops(
    place: Place, paths: str, prepare: str, undo: str, says: str
) -> None:
    before = snapshot(place.host)
    place.declare()
    place.workplace.apply()
    place.host.exec(["sh", "-c", prepare])
    place.declare(paths, context=1024)
    refused = place.workplace.expect(9, "apply", "--yes")
    assert says in refused.stdout + refused.stderr
    assert "blue" in answer(place.host.address, KEY).lower()
    place.workplace.expect(0, "destroy", "--confirm", "den")
    place.host.exec(["sh", "-c", undo])
    assert difference(before, snapshot(place.host)) == []
