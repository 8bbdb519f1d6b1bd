"""Faults that hit a running command at a chosen step: what they do, and how the lab is mended afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.end_to_end.workplace import Workplace
from tests.lab.host import Host
from tests.lab.hosts import Lab
from tests.lab.process import wait_until

LONGEST = 420.0
"""Seconds a command may go on after a fault: a silent host is given up on long before."""

KILL_AGENT = "import json, os, signal; os.kill(json.load(open('/run/hetctl/lock'))['pid'], signal.SIGKILL)"


class Command:
    """A hetctl command that runs, and the events it writes."""

    def __init__(self, workplace: Workplace, *arguments: str) -> None:
        self._events = workplace.directory / "events.jsonl"
        self._events.unlink(missing_ok=True)
        self._output = workplace.directory / "output.json"
        self._errors = workplace.directory / "errors.txt"
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hetctl", *arguments, "-o", "json", "--events", str(self._events)],
                cwd=workplace.directory,
                env=dict(workplace.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield events as they are written, until the command has ended."""
        read = 0
        while True:
            ended = self.process.poll() is not None
            text = self._events.read_text() if self._events.exists() else ""
            *whole, _ = text[read:].split("\n")
            for line in whole:
                read += len(line) + 1
                yield json.loads(line)
            if ended and not whole:
                return
            if not whole:
                time.sleep(0.01)

    def wait(self) -> int:
        """Return the exit code."""
        return self.process.wait(LONGEST)

    @property
    def document(self) -> Any:
        """What it printed; None when that is no whole document."""
        try:
            return json.loads(self._output.read_text())
        except ValueError:
            return None

    @property
    def errors(self) -> str:
        """What it said beside."""
        return self._errors.read_text()


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong.

    Arguments:
        happens: To a command, with the host that its present step works on; None for the operator's machine.
        mend: Puts that host right again.
        speaks: The command can still say what became of each step.
    """

    happens: Callable[[Command, Host | None], None]
    mend: Callable[[Host], None] = lambda _: None
    speaks: bool = True


def _interrupt(command: Command, _host: Host | None) -> None:
    command.process.send_signal(signal.SIGINT)


def _interrupt_twice(command: Command, _host: Host | None) -> None:
    command.process.send_signal(signal.SIGINT)
    for event in command.events():
        if event["event"] == "interrupted":
            break
    if command.process.poll() is None:
        command.process.send_signal(signal.SIGINT)


def _kill(command: Command, _host: Host | None) -> None:
    os.kill(command.process.pid, signal.SIGKILL)


def _kill_agent(_command: Command, host: Host | None) -> None:
    if host is not None:
        host.exec(["python3", "-c", KILL_AGENT], check=False)


def _on_host(what: Callable[[Host], None]) -> Callable[[Command, Host | None], None]:
    def happens(_command: Command, host: Host | None) -> None:
        if host is not None:
            what(host)

    return happens


FAULTS: dict[str, Fault] = {
    "Ctrl-C": Fault(_interrupt),
    "Ctrl-C twice": Fault(_interrupt_twice, speaks=False),
    "hetctl is killed": Fault(_kill, speaks=False),
    "the agent is killed": Fault(_kill_agent),
    "the connection is cut": Fault(_on_host(Host.cut), Host.heal),
    "the host loses power": Fault(_on_host(Host.lose_power), Host.start),
    "the host is frozen": Fault(_on_host(Host.freeze), Host.thaw),
}


@dataclass(frozen=True)
class Struck:
    """A command that was hit.

    Arguments:
        happened: The step began, and the fault happened.
        code: Its exit code.
        planned: The steps it began with.
        results: What became of each, by its own account; None when it could not say.
        errors: What it said beside.
    """

    happened: bool
    code: int
    planned: tuple[str, ...]
    results: dict[str, str] | None
    errors: str


def strike(workplace: Workplace, lab: Lab, arguments: tuple[str, ...], step: str, fault: Fault) -> Struck:
    """Run a command, let a fault happen when a step begins, mend the lab, and return what came of it."""
    command = Command(workplace, *arguments)
    planned: tuple[str, ...] = ()
    host: Host | None = None
    happened = False
    for event in command.events():
        if event["event"] == "began":
            planned = tuple(event["steps"])
        if event["event"] == "started" and event["step"] == step:
            host = next((host for host in lab if host.name == event["node"]), None)
            fault.happens(command, host)
            happened = True
            break
    try:
        code = command.wait()
    finally:
        command.process.kill()
        if host is not None:
            fault.mend(host)
    if host is not None:
        wait_until(host.answers, f"{host.name} answers again", seconds=60)
    document = command.document
    results = {item["name"]: item["result"] for item in document["steps"]} if document else None
    return Struck(happened, code, planned, results, command.errors)


def steps_of(workplace: Workplace, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Run a command undisturbed and return the steps that began, in their order."""
    command = Command(workplace, *arguments)
    begun = [event["step"] for event in command.events() if event["event"] == "started"]
    assert command.wait() == 0, command.errors
    return tuple(begun)


def half_made(host: Host) -> list[str]:
    """Return what lies on a host under a final name and is not whole."""
    script = """
for file in /etc/systemd/system/hetctl:*; do
    [ -e "$file" ] || continue
    [ "$(tail -c1 "$file" | od -An -c | tr -d ' ')" = '\\n' ] || echo "unit $file"
done
for build in /var/lib/hetctl/builds/*/; do
    [ -d "$build" ] || continue
    "$build/llama-server" --version >/dev/null 2>&1 || echo "build $build"
done
for model in /var/lib/hetctl/models/*/*/*.gguf; do
    [ -e "$model" ] || continue
    echo "$(sha256sum < "$model") $model"
done
"""
    return host.exec(["sh", "-c", script]).stdout.splitlines()
