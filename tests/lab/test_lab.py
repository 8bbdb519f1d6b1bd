from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lab.fixtures import LabFactory
    from tests.lab.host import Host
    from tests.lab.hosts import Lab


@pytest.fixture(scope="module")
def hosts(lab: LabFactory) -> Lab:
    return lab("atlas", "pascal", "bench")


def ssh(host: Host, command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
    options = (
        f"-i{host.identity}", f"-oUserKnownHostsFile={host.known_hosts}", "-oStrictHostKeyChecking=yes",
        "-oIdentitiesOnly=yes", "-oBatchMode=yes", "-oConnectTimeout=2", "-F/dev/null",
    )  # fmt: skip
    argv = ["ssh", *options, f"{user}@{host.address}", command]
    return subprocess.run(argv, input="", capture_output=True, text=True, check=False, timeout=30)


def test_hosts_run_systemd_and_answer_over_ssh(hosts: Lab) -> None:
    for host in hosts:
        assert ssh(host, "systemctl is-system-running && hostname").stdout == f"running\n{host.name}\n"
