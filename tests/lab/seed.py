"""What makes the common lower layer one particular host: written to its empty disk before the first boot."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SUDO_USER = "ops"
"""A user besides root that logs in with the same key and may sudo with a password."""

SUDO_PASSWORD = "lab-password"
_SUDO_PASSWORD_HASH = (
    "$6$hetctllab$bT0zS9ttrz4JcZfdU2GAH9z2NZGKqfTG7M9a/ROt/GpFr0nr.75etdVZxoJS1U4Ohg5HIWU5Pz7vgGIDMe8QM/"
)

_VISIBLE_OF_MACHINE = tuple(
    """
    bin sbin lib lib32 lib64 libx32 usr etc var dev proc sys run
    """.split()
)
_HIDDEN_OF_MACHINE = tuple(
    """
    var/tmp var/log var/lib/systemd var/cache var/spool/cron usr/local etc/systemd/system etc/cron.d
    etc/rc0.d etc/rc1.d etc/rc2.d etc/rc3.d etc/rc4.d etc/rc5.d etc/rc6.d etc/rcS.d etc/netns
    etc/ssh/sshd_config.d etc/sudoers.d
    """.split()
)
_MASKED_UNITS = tuple(
    """
    systemd-udevd.service systemd-resolved.service systemd-timesyncd.service systemd-networkd.service
    systemd-networkd.socket systemd-networkd-wait-online.service console-getty.service getty.target
    systemd-modules-load.service apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer
    dpkg-db-backup.timer motd-news.timer ssh.socket systemd-update-utmp.service
    """.split()
)
_SSHD_CONFIGURATION = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM yes
UseDNS no
PrintMotd no
# The default of 10 unauthenticated connections drops logins that come in parallel.
MaxStartups 200:30:400
MaxSessions 50
Subsystem sftp /usr/lib/openssh/sftp-server
"""


def seed(
    disk: Path, *, name: str, lower: Path, host_key: Path, authorized_key: str, neighbours: Mapping[str, str]
) -> None:
    """Write a host's own files.

    Arguments:
        disk: The overlay's upper directory.
        name: Host name.
        lower: The lower layer; `/` for a host that sees this machine's programs.
        host_key: The host's private SSH key; the public one lies beside it.
        authorized_key: Public key that may log in as root and as `SUDO_USER`.
        neighbours: Address of each host name for /etc/hosts.
    """
    if lower == Path("/"):
        _hide_machine(disk)
    _seed_services(disk)
    _seed_identity(disk, name, neighbours)
    _seed_logins(disk, lower, host_key, authorized_key)


def _hide_machine(disk: Path) -> None:
    """Make the machine's own data look empty: its programs and their configuration stay."""
    top = [path.name for path in Path("/").iterdir() if path.is_dir() and not path.is_symlink()]
    for name in (*sorted(set(top) - set(_VISIBLE_OF_MACHINE)), *_HIDDEN_OF_MACHINE):
        source = Path("/", name)
        if source.is_dir() and not source.is_symlink():
            hidden = disk / name
            hidden.mkdir(parents=True, exist_ok=True)
            os.setxattr(hidden, "trusted.overlay.opaque", b"y")
            hidden.chmod(source.stat().st_mode & 0o7777)
    for name in ("usr/local/bin", "var/log/journal"):
        (disk / name).mkdir(parents=True, exist_ok=True)


def _seed_services(disk: Path) -> None:
    units = disk / "etc/systemd/system"
    (units / "multi-user.target.wants").mkdir(parents=True, exist_ok=True)
    (units / "multi-user.target.wants/ssh.service").symlink_to("/lib/systemd/system/ssh.service")
    (units / "default.target").symlink_to("/lib/systemd/system/multi-user.target")
    for unit in _MASKED_UNITS:
        (units / unit).symlink_to("/dev/null")
    (disk / "var/log/journal").mkdir(
        parents=True, exist_ok=True
    )  # a persistent journal, as on an installed Debian


def _seed_identity(disk: Path, name: str, neighbours: Mapping[str, str]) -> None:
    _put(disk / "etc/hostname", f"{name}\n")
    _put(disk / "etc/fstab", "")
    # Left empty, every host would take the lower layer's D-Bus id.
    _put(disk / "etc/machine-id", f"{uuid.uuid4().hex}\n", 0o444)
    (disk / "var/lib/dbus").mkdir(parents=True, exist_ok=True)
    (disk / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")
    hosts = "".join(f"{address} {other}\n" for other, address in neighbours.items())
    _put(disk / "etc/hosts", f"127.0.0.1 localhost\n{hosts}")
    _put(disk / "etc/resolv.conf", "# no name server in the lab\n")


def _seed_logins(disk: Path, lower: Path, host_key: Path, authorized_key: str) -> None:
    _put(disk / "etc/ssh/sshd_config", _SSHD_CONFIGURATION)
    _put(disk / "etc/ssh/ssh_host_ed25519_key", host_key.read_text(), 0o600)
    _put(disk / "etc/ssh/ssh_host_ed25519_key.pub", host_key.with_suffix(".pub").read_text())
    accounts = {
        "passwd": f"{SUDO_USER}:x:2000:2000::/home/{SUDO_USER}:/bin/bash\n",
        "group": f"{SUDO_USER}:x:2000:\n",
        "shadow": f"{SUDO_USER}:{_SUDO_PASSWORD_HASH}:19000:0:99999:7:::\n",
        "gshadow": f"{SUDO_USER}:!::\n",
    }
    for file, line in accounts.items():
        source = lower / "etc" / file
        kept = [
            old for old in source.read_text().splitlines(keepends=True) if not old.startswith(f"{SUDO_USER}:")
        ]
        _put(disk / "etc" / file, "".join(kept) + line, source.stat().st_mode & 0o7777)
    _put(disk / f"etc/sudoers.d/{SUDO_USER}", f"{SUDO_USER} ALL=(ALL:ALL) ALL\n", 0o440)
    (disk / "home").mkdir(exist_ok=True)
    for home, mode, owner in (("root", 0o700, 0), (f"home/{SUDO_USER}", 0o755, 2000)):
        directory = disk / home
        (directory / ".ssh").mkdir(parents=True)
        _put(directory / ".ssh/authorized_keys", authorized_key, 0o600)
        directory.chmod(mode)
        (directory / ".ssh").chmod(0o700)
        for path in (directory, *directory.rglob("*")):
            shutil.chown(path, owner, owner)


def _put(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
