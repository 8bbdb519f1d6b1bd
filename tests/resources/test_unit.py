from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hetctl.resources.unit import Service, file_drift, render_oneshot, render_service, unit_drift

SERVICE = Service(
    unit="hetctl:den:chat:server.service",
    description="hetctl den: server of placement chat 100 %",
    command=["/bin/true", "--alias", "a b", "--grammar", "$HOME %h 'x' \"y\""],
    before_start=[["/bin/true", "--expect", "7.0.0"]],
    environment={"A": "1", "B": "with space"},
    wants=["hetctl:den:chat:firewall.service"],
    after=["hetctl:den:chat:firewall.service"],
    checks=[["/bin/true", "list", "table"]],
    credentials={"api-keys": "/var/lib/hetctl/clusters/den/secrets/chat.api-keys"},
    allow_addresses=["10.0.0.5", "127.0.0.0/8"],
    start_seconds=65,
)


def test_a_unit_restarts_always_and_without_limit() -> None:
    lines = render_service(SERVICE).splitlines()
    assert "Restart=always" in lines
    assert "StartLimitIntervalSec=0" in lines
    assert "DynamicUser=yes" in lines
    assert "PrivateDevices=yes" in lines
    assert "IPAddressAllow=10.0.0.5 127.0.0.0/8" in lines


def test_a_gpu_service_opens_only_its_device_nodes() -> None:
    gpu = Service(
        unit="u.service", description="d", command=["/bin/true"], devices=["char-nvidia"], groups=["video"]
    )
    lines = render_service(gpu).splitlines()
    assert "DevicePolicy=closed" in lines
    assert "DeviceAllow=char-nvidia rw" in lines
    assert "PrivateDevices=yes" not in lines


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    firewall = render_oneshot(
        unit="hetctl:den:chat:firewall.service",
        description="packet filter",
        start=["/bin/true", "-f", "/x y"],
        stop=["/bin/true"],
        before="network-pre.target",
        follows="nftables.service",
    )
    (tmp_path / "hetctl:den:chat:firewall.service").write_text(firewall)
    (tmp_path / SERVICE.unit).write_text(render_service(SERVICE))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=one", str(tmp_path / SERVICE.unit)],
        capture_output=True,
        text=True,
        check=False,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
    )
    ours = [line for line in done.stderr.splitlines() if "hetctl" in line]
    assert ours == []


GOOD = {"load": "loaded", "enabled": "enabled", "active": "active", "exe": "/b/llama-server", "drop_ins": []}


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (GOOD, ""),
        ({**GOOD, "load": "masked"}, "is masked"),
        ({**GOOD, "load": "not-found"}, "is not-found"),
        ({}, "is missing"),
        ({**GOOD, "enabled": "disabled"}, "is disabled"),
        ({**GOOD, "active": "failed"}, "is failed"),
        ({**GOOD, "active": "inactive"}, "is inactive"),
        ({**GOOD, "exe": "/b/llama-server (deleted)"}, "runs /b/llama-server (deleted)"),
        ({**GOOD, "exe": None}, "runs an unreadable program"),
        ({**GOOD, "need_reload": True}, "was edited and not reloaded"),
    ],
)
def test_a_unit_that_is_not_as_applied_is_named(state: dict[str, object], told: str) -> None:
    reasons = unit_drift("u.service", state, executable="/b/llama-server")
    assert [reason.drift for reason in reasons] == [True] * (1 if told else 0)
    assert all(told in reason.text for reason in reasons)


EXPECTED = {"sha256": "aa", "size": 1, "mtime_ns": 5, "inode": 7, "mode": 0o644, "uid": 0, "gid": 0}
FILE = {"exists": True, "kind": "file", **EXPECTED}
SECRET = {key: value for key, value in EXPECTED.items() if key != "sha256"}


@pytest.mark.parametrize(
    ("state", "expected", "told"),
    [
        (FILE, EXPECTED, ""),
        ({**FILE, "mtime_ns": 6, "inode": 8}, EXPECTED, ""),
        ({**FILE, "sha256": "bb"}, EXPECTED, "was changed"),
        ({**FILE, "mode": 0o666}, EXPECTED, "permissions"),
        ({**FILE, "uid": 1000}, EXPECTED, "owner"),
        ({**FILE, "kind": "symlink"}, EXPECTED, "is a symlink"),
        ({"exists": False}, EXPECTED, "is missing"),
        (FILE, SECRET, ""),
        ({**FILE, "mtime_ns": 6}, SECRET, "was changed"),
    ],
)
def test_a_file_that_is_not_as_written_is_named(
    state: dict[str, object], expected: dict[str, object], told: str
) -> None:
    reasons = file_drift("/p", state, expected)
    assert len(reasons) == (1 if told else 0)
    assert all(told in reason.text for reason in reasons)
