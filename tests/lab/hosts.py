"""Bringing up several hosts at once, and taking them down."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.lab import network
from tests.lab.host import HOSTS, IDENTITY, Host
from tests.lab.isolation import ROOT, allow_inotify_instances, require_isolation
from tests.lab.process import LabError, run
from tests.lab.rootfs import root_file_system
from tests.lab.seed import SUDO_USER, seed

NUMBERS = range(11, 241)
_INOTIFY_INSTANCES_PER_HOST = 10  # what systemd, logind and D-Bus hold, all counted as root's
_BOOTING_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Lab:
    """Hosts that know each other's names."""

    hosts: tuple[Host, ...]

    def __getitem__(self, name: str) -> Host:
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts)

    def __len__(self) -> int:
        return len(self.hosts)

    @property
    def identity(self) -> Path:
        """Private key file for logging in to each of them."""
        return IDENTITY

    @property
    def known_hosts(self) -> Path:
        """An OpenSSH known_hosts file with all their keys."""
        return self.hosts[0].known_hosts

    def ssh_config(self) -> str:
        """Return a configuration for OpenSSH that reaches each by its name."""
        hosts = "".join(f"Host {host.name}\n  HostName {host.address}\n" for host in self.hosts)
        return (
            f"{hosts}Host *\n  User root\n  IdentityFile {self.identity}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  StrictHostKeyChecking yes\n  ConnectTimeout 5\n"
        )

    def down(self) -> None:
        """Remove every host and all it wrote."""
        with ThreadPoolExecutor(_BOOTING_AT_ONCE) as pool:
            list(pool.map(Host.remove, self.hosts))


def bring_up(names: Sequence[str], *, lower: str = "", disk: str = "2g") -> Lab:
    """Boot one host for each name and return when all are ready.

    Arguments:
        names: Host names, each once.
        lower: Lower layer of their disks: empty for a minimal system without compilers, `/` for hosts that
            see the programs of this machine.
        disk: Size of each disk; only what is used takes memory.

    Raises:
        LabError: Not isolated, or a host did not come up; none is left then.
    """
    require_isolation()
    if len(set(names)) != len(names) or not names:
        raise LabError(f"host names are not unique: {', '.join(names)}")
    layer = lower or str(root_file_system())
    _make_identity()
    network.bring_up_bridge()
    lab = Lab(
        tuple(
            Host(name, number, layer, disk) for name, number in zip(names, _reserve(len(names)), strict=True)
        )
    )
    try:
        _prepare(lab)
        for host in lab:
            host.boot()
        with ThreadPoolExecutor(_BOOTING_AT_ONCE) as pool:
            list(pool.map(Host.wait_ready, lab.hosts))
    except BaseException:
        lab.down()
        raise
    return lab


def _reserve(count: int) -> list[int]:
    """Take `count` free numbers; a number is taken by making its directory."""
    HOSTS.mkdir(exist_ok=True)
    numbers: list[int] = []
    for number in NUMBERS:
        if len(numbers) == count:
            break
        try:
            (HOSTS / str(number)).mkdir()
        except FileExistsError:
            continue
        numbers.append(number)
    if len(numbers) < count:
        for number in numbers:
            (HOSTS / str(number)).rmdir()
        raise LabError(f"no room for {count} more hosts")
    return numbers


def _make_identity() -> None:
    with (ROOT / "identity.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not IDENTITY.exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "hetctl-lab", "-f", IDENTITY)


def _prepare(lab: Lab) -> None:
    allow_inotify_instances(_INOTIFY_INSTANCES_PER_HOST * len(list(HOSTS.iterdir())) + 64)
    neighbours = {host.name: host.address for host in lab}
    for host in lab:
        host.record()
        network.connect(host.number)
    with ThreadPoolExecutor(_BOOTING_AT_ONCE) as pool:
        keys = list(pool.map(lambda host: _make_disk(host, neighbours), lab.hosts))
    known = "".join(f"{host.name},{host.address} {key}\n" for host, key in zip(lab, keys, strict=True))
    for host in lab:
        host.known_hosts.write_text(known)


def _make_disk(host: Host, neighbours: dict[str, str]) -> str:
    """Make and seed the disk of `host` and return its public SSH key."""
    disk = host.directory / "disk"
    disk.mkdir()
    (host.directory / "root").mkdir()
    run("mount", "-t", "tmpfs", "-o", f"mode=755,size={host.disk}", f"disk-{host.name}", disk)
    (disk / "upper").mkdir()
    (disk / "work").mkdir()
    key = host.directory / "hostkey"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", host.name, "-f", key)
    seed(
        disk / "upper",
        name=host.name,
        lower=Path(host.lower),
        host_key=key,
        authorized_key=IDENTITY.with_suffix(".pub").read_text(),
        neighbours=neighbours,
    )
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


__all__ = ["SUDO_USER", "Host", "Lab", "bring_up"]
