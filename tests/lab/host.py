"""One host of the lab: booting it, talking to it without SSH, and breaking it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import network
from tests.lab.isolation import ROOT, group_processes, kill_group, own_group
from tests.lab.process import LabError, run, start_daemon, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

HOSTS = ROOT / "hosts"
IDENTITY = ROOT / "identity"
"""Private SSH key that may log in to every host as root, and as `tests.lab.seed.SUDO_USER`."""

_BOOT = Path(__file__).with_name("boot.sh")
_POWER_OFF = signal.SIGRTMIN + 4  # to systemd as process 1: systemd(1), SIGNALS
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}


@dataclass(frozen=True, slots=True)
class Host:
    """A machine with its own systemd, sshd, network and disk.

    Arguments:
        name: Host name.
        number: Last part of its address; unique in the run.
        lower: Lower layer of its disk.
        disk: Size of its disk, such as `1g`; only what is used takes memory.
    """

    name: str
    number: int
    lower: str
    disk: str

    @property
    def address(self) -> str:
        """Its IPv4 address."""
        return network.address_of(self.number)

    @property
    def directory(self) -> Path:
        """Where the lab keeps it: `disk/upper` is what it wrote, `console.log` what it said while booting."""
        return HOSTS / str(self.number)

    @property
    def identity(self) -> Path:
        """Private key file for logging in."""
        return IDENTITY

    @property
    def known_hosts(self) -> Path:
        """An OpenSSH known_hosts file with the keys of this host and those brought up together with it."""
        return self.directory / "known_hosts"

    @property
    def group(self) -> Path:
        """Its cgroup."""
        return own_group() / str(self.number)

    @property
    def up(self) -> bool:
        """True while its process 1 runs."""
        return self._first_process() is not None

    def boot(self) -> None:
        """Start it without waiting."""
        if not network.connected(self.number):
            network.connect(self.number)
        self.group.mkdir(parents=True, exist_ok=True)
        environment = {
            "NAME": self.name,
            "NAMESPACE": network.namespace_of(self.number),
            "DIRECTORY": str(self.directory),
            "LOWER": self.lower,
            "GROUP": str(self.group),
        }
        start_daemon(["bash", str(_BOOT)], environment=environment, log=self.directory / "console.log")

    def wait_ready(self, seconds: float = 60) -> None:
        """Return when sshd answers and systemd has started everything.

        Raises:
            LabError: Not within `seconds`, or a unit failed.
        """
        wait_until(self.answers, f"{self.name} answers on port 22", seconds=seconds)
        state = self.exec(
            ["systemctl", "is-system-running", "--wait"], check=False, timeout=seconds
        ).stdout.strip()
        if state != "running":
            failed = self.exec(
                ["systemctl", "list-units", "--failed", "--no-legend", "--plain"], check=False
            ).stdout
            raise LabError(f"{self.name} is {state or 'down'}: {failed.strip()}")

    def answers(self) -> bool:
        """Tell whether its sshd says its banner; a frozen host accepts connections but does not."""
        try:
            with socket.create_connection((self.address, 22), timeout=1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def start(self) -> None:
        """Boot it again with the disk it has, and wait until it is ready."""
        if not self.up:
            self.boot()
        self.wait_ready()

    def stop(self) -> None:
        """Shut it down cleanly."""
        self.thaw()
        process = self._first_process()
        if process is None:
            return
        os.kill(process, _POWER_OFF)
        wait_until(lambda: not group_processes(self.group), f"{self.name} is off", seconds=30)
        kill_group(self.group)

    def kill(self) -> None:
        """End every process at once; nothing more is written, and the disk stays.

        Its kernel still closes its connections, so that others notice at once.
        """
        self.thaw()
        kill_group(self.group)

    def lose_power(self) -> None:
        """Cut its power: as `kill`, and nobody hears of it. Its address answers nothing until it boots.

        What was wrong with its cable is forgotten.
        """
        network.disconnect(self.number)
        self.kill()

    def freeze(self) -> None:
        """Hang it: no process runs, while its kernel still accepts connections."""
        (self.group / "cgroup.freeze").write_text("1")

    def thaw(self) -> None:
        """End `freeze`."""
        with contextlib.suppress(FileNotFoundError):  # it is down
            (self.group / "cgroup.freeze").write_text("0")

    def cut(self) -> None:
        """Swallow every packet from and to it, silently."""
        network.set_loss(self.number, 100)

    def heal(self) -> None:
        """Take away every fault of its network."""
        network.set_loss(self.number, 0)
        network.set_rate(self.number, "off")
        network.set_delay(self.number, 0)
        network.set_link(self.number, up=True)

    def unplug(self) -> None:
        """Pull its cable: it sees the carrier go."""
        network.set_link(self.number, up=False)

    def plug(self) -> None:
        """End `unplug`."""
        network.set_link(self.number, up=True)

    def loss(self, percent: float) -> None:
        """Lose `percent` (0 to 100) of the packets, each way."""
        network.set_loss(self.number, percent)

    def rate(self, rate: str) -> None:
        """Limit its cable to `rate`, such as `100mbit`, or `off`."""
        network.set_rate(self.number, rate)

    def delay(self, milliseconds: float) -> None:
        """Delay every packet by `milliseconds`, each way; 0 for none."""
        network.set_delay(self.number, milliseconds)

    def exec(
        self, argv: Sequence[str], *, text: str | None = None, check: bool = True, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the host as root, without SSH and whatever its network is like.

        Raises:
            LabError: The host is down, or with `check` the program failed.
        """
        done = subprocess.run(
            [*self._enter(), *argv],
            input=text or "",
            text=True,
            capture_output=True,
            check=False,
            timeout=timeout,
            env=_ENVIRONMENT,
        )
        if check and done.returncode:
            raise LabError(f"{self.name}: {' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}")
        return done

    def replace_by(self, argv: Sequence[str]) -> None:
        """Become a program in the host, attached to this process's terminal."""
        command = [*self._enter(), *argv]
        os.execvpe(command[0], command, {**_ENVIRONMENT, "TERM": os.environ.get("TERM", "dumb")})  # noqa: S606 - no shell wanted

    def view(self) -> Path:
        """Return its root directory as seen from outside, mounts included; only while it is up."""
        return Path(f"/proc/{self._running_process()}/root")

    def remove(self) -> None:
        """Cut its power and forget it and its disk."""
        self.kill()
        network.disconnect(self.number)
        disk = self.directory / "disk"
        if disk.is_mount():
            run("umount", disk)
        run("rm", "-rf", "--one-file-system", self.directory)

    def record(self) -> None:
        """Write down what it is, for `recorded_hosts`."""
        (self.directory / "host.json").write_text(json.dumps(asdict(self)))

    def _enter(self) -> list[str]:
        namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
        return ["nsenter", "--target", str(self._running_process()), *namespaces, "--"]

    def _running_process(self) -> int:
        process = self._first_process()
        if process is None:
            raise LabError(f"{self.name} is down")
        return process

    def _first_process(self) -> int | None:
        """Return the id, as seen from here, of its process 1."""
        for place in ("payload/init.scope", "payload"):
            try:
                candidates = (self.group / place / "cgroup.procs").read_text().split()
            except OSError:
                continue
            for candidate in candidates:
                with contextlib.suppress(OSError):  # it ended in between
                    if _innermost_id(int(candidate)) == 1:
                        return int(candidate)
        return None


def recorded_hosts() -> list[Host]:
    """Return every host of this run, whichever process brought it up, by number."""
    records = HOSTS.glob("*/host.json") if HOSTS.is_dir() else []
    return sorted(
        (Host(**json.loads(record.read_text())) for record in records), key=lambda host: host.number
    )


def _innermost_id(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            ids = line.split()[1:]
            return int(ids[-1]) if len(ids) > 1 else 0
    return 0
