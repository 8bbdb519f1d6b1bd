"""A real sshd on loopback, with keys and configuration of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hetctl.transport.ssh import SSHTransport

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin") or "/usr/sbin/sshd"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def make_key(path: Path, kind: str = "ed25519") -> Path:
    size = ["-b", "2048"] if kind == "rsa" else []
    subprocess.run(["ssh-keygen", "-q", "-t", kind, *size, "-N", "", "-f", path], check=True)
    return path


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "the condition did not come true in time"
        time.sleep(0.01)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@dataclass
class Server:
    """A running sshd.

    Arguments:
        directory: Its keys and files.
        port: On 127.0.0.1.
        process: The daemon.
    """

    directory: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def identity(self) -> Path:
        return self.directory / "id"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def config_file(self) -> Path:
        return self.directory / "ssh_config"

    def transport(self, **options: object) -> SSHTransport:
        arguments: dict[str, object] = {
            "user": getpass.getuser(),
            "port": self.port,
            "identity_files": [self.identity],
            "known_hosts": self.known_hosts,
            "config_file": self.config_file,
            **options,
        }
        return SSHTransport("127.0.0.1", **arguments)  # type: ignore[arg-type]  # a dictionary of arguments

    def forget_keys(self) -> None:
        self.known_hosts.unlink(missing_ok=True)


def start_sshd(directory: Path, extra: str = "") -> Server:
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    for kind in ("ed25519", "rsa"):
        make_key(directory / f"host_{kind}", kind)
    make_key(directory / "id")
    shutil.copy(directory / "id.pub", directory / "authorized_keys")
    (directory / "ssh_config").write_text("")
    (directory / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\n"
        f"HostKey {directory}/host_ed25519\nHostKey {directory}/host_rsa\n"
        f"AuthorizedKeysFile {directory}/authorized_keys\nPidFile none\nStrictModes no\nUsePAM no\n"
        f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nUseDNS no\n"
        f"MaxStartups 100:30:200\n{extra}\n"
    )
    if os.geteuid() == 0:  # where sshd confines itself before the login
        Path("/run/sshd").mkdir(exist_ok=True)
    log = (directory / "log").open("wb")
    process = subprocess.Popen([SSHD, "-D", "-e", "-f", directory / "sshd_config"], stderr=log)
    log.close()
    wait_until(lambda: accepts(port))
    public = (directory / "host_ed25519.pub").read_text().split()
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
    return Server(directory, port, process)


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = start_sshd(tmp_path_factory.mktemp("sshd"))
    yield server
    server.process.terminate()
    server.process.wait(10)


@pytest.fixture
def other_sshd(tmp_path: Path) -> Iterator[Server]:
    """A server of one test's own, to be broken."""
    server = start_sshd(tmp_path / "other")
    yield server
    server.process.kill()
    server.process.wait(10)


@pytest.fixture
def condition() -> Callable[..., None]:
    return wait_until


@pytest.fixture(autouse=True)
def _no_ssh_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the keys and the configuration of whoever runs the tests out of them."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
