"""One model over many hosts: five, and ten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import WorkplaceFactory
from tests.end_to_end.workplace import chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.snapshot import difference, snapshot


@pytest.mark.parametrize("count", [5, 10])
def test_one_model_over_many_hosts(
    count: int,
    lab: LabFactory,
    workplace_beside: WorkplaceFactory,
    llama_source: Path,
    small_model: Path,
) -> None:
    names = [f"n{count}{chr(ord('a') + index)}" for index in range(count)]
    hosts = lab(*names)
    try:
        before = {host.name: snapshot(host) for host in hosts}
        workplace = workplace_beside(hosts)
        workplace.write(
            chat_manifest(
                name="farm",
                head=names[0],
                workers=names[1:],
                addresses={host.name: host.address for host in hosts},
                source=llama_source,
                model=small_model,
            )
        )
        workplace.apply()
        workplace.expect(0, "diff")
        status = workplace.expect(0, "status", "-o", "json").document
        assert len(status["placements"][0]["members"]) == count
        workplace.expect(0, "destroy", "--confirm", "farm", seconds=300)
        for host in hosts:
            assert difference(before[host.name], snapshot(host)) == []
    finally:
        hosts.down()
