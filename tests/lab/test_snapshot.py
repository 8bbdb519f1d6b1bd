from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.snapshot import EXCLUDED, difference, snapshot

if TYPE_CHECKING:
    from tests.lab.fixtures import LabFactory
    from tests.lab.host import Host


@pytest.fixture(scope="module")
def host(lab: LabFactory) -> Host:
    host = lab("atlas")["atlas"]
    host.exec(
        ["sh", "-c", "printf old >/srv/file; ln -s old /srv/link; mkdir -p /srv/folder /var/lib/private"]
    )
    return host


def test_use_without_a_change_leaves_no_difference(host: Host) -> None:
    before = snapshot(host)
    assert len(before) > 5000
    state = ["--property=DynamicUser=yes", "--property=StateDirectory=probe"]
    host.exec(["systemd-run", "--wait", "--unit=probe", *state, "true"])
    host.exec(["sh", "-c", "rm -rf /var/lib/probe /var/lib/private/probe"])
    host.exec(["python3", "-c", "import json, urllib.request, asyncio, ssl, sqlite3, tarfile"])
    host.kill()
    host.start()
    assert difference(before, snapshot(host)) == []


CHANGES = (
    # what is done, how it is undone, what is to be seen
    ("echo x >/srv/new", "rm /srv/new", ["+ /srv/new"]),
    ("printf new >/srv/file", "printf old >/srv/file", ["~ /srv/file"]),
    ("chmod 600 /etc/hostname", "chmod 644 /etc/hostname", ["~ /etc/hostname"]),
    ("chown 12:0 /etc/hosts", "chown 0:0 /etc/hosts", ["~ /etc/hosts"]),
    ("chown 0:12 /etc/fstab", "chown 0:0 /etc/fstab", ["~ /etc/fstab"]),
    ("ln -sf new /srv/link", "ln -sf old /srv/link", ["~ /srv/link"]),
    ("rmdir /srv/folder", "mkdir /srv/folder", ["- /srv/folder"]),
    ("mkdir -p /opt/a/b", "rm -r /opt/a", ["+ /opt/a", "+ /opt/a/b"]),
    ("mv /usr/bin/curl /root/curl", "mv /root/curl /usr/bin/curl", ["+ /root/curl", "- /usr/bin/curl"]),
    ("touch /var/lib/private/x", "rm /var/lib/private/x", ["+ /var/lib/private/x"]),
    ("touch /usr/lib/systemd/system/x.service", "rm /usr/lib/systemd/system/x.service",
     ["+ /usr/lib/systemd/system/x.service"]),
)  # fmt: skip


def test_every_kind_of_change_is_seen_and_its_undoing_too(host: Host) -> None:
    before = snapshot(host)
    host.exec(["sh", "-e", "-c", "\n".join(change for change, _, _ in CHANGES)])
    lines = [line.partition(":")[0] for line in difference(before, snapshot(host))]
    assert sorted(lines) == sorted(line for _, _, expected in CHANGES for line in expected)
    host.exec(["sh", "-e", "-c", "\n".join(undo for _, undo, _ in CHANGES)])
    assert difference(before, snapshot(host)) == []


def test_what_is_left_out_is_left_out(host: Host) -> None:
    before = snapshot(host)
    host.exec(["sh", "-c", "touch /run/x /tmp/x /var/tmp/x /var/lib/systemd/x"])
    assert difference(before, snapshot(host)) == []
    assert not set(EXCLUDED) & set(before)
