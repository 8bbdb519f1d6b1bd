"""Something that ran before and is not of hetctl: a unit, a container or a process, retired and revived.

What it was is kept in a file that only root can read: a process's environment may hold secrets.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent import atomic
from hetctl.agent.failures import Failure, bad_request
from hetctl.agent.listeners import command_of, unit_of
from hetctl.agent.processes import SEARCH_PATH, capture, find_program, need_program
from hetctl.agent.removal import remove_path
from hetctl.agent.services import checked_unit, executable_of, unit_states

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetctl.agent.context import Context

Record = dict[str, Any]

OURS = "hetctl:"
STOP_SECONDS = 30.0
"""How long a process may take to end before it is killed."""

ENGINES = ("docker", "podman")


def _do(context: Context, *argv: str) -> str:
    done = capture(context, [need_program(context, argv[0]), *argv[1:]])
    if done.exit != 0:
        raise Failure(f"{' '.join(argv)} failed", why=done.stderr.decode(errors="replace").strip())
    return done.stdout.decode(errors="replace")


class _Unit:
    def look(self, context: Context, name: str) -> Record:
        shown = unit_states(context, [checked_unit(name)])[0]
        return {
            "exists": shown["load"] not in ("", "not-found"),
            "running": shown["active"] not in ("inactive", "failed"),
            "enabled": shown["enabled"] == "enabled",
        }

    def stop(self, context: Context, name: str, found: Record) -> None:
        if found["enabled"]:
            _do(context, "systemctl", "disable", "--", name)
        if found["running"]:
            _do(context, "systemctl", "stop", "--", name)

    def start(self, context: Context, name: str, record: Record) -> None:
        if record["enabled"]:
            _do(context, "systemctl", "enable", "--", name)
        if record["running"]:
            _do(context, "systemctl", "start", "--", name)


class _Container:
    def _engine(self, context: Context) -> str:
        found = next((name for name in ENGINES if find_program(context, name)), None)
        if found is None:
            raise Failure("there is neither docker nor podman on this node")
        return found

    def look(self, context: Context, name: str) -> Record:
        if name.startswith("-"):
            raise bad_request(f"not the name of a container: {name!r}")
        engine = self._engine(context)
        form = "{{json .State.Running}} {{json .HostConfig.RestartPolicy.Name}}"
        done = capture(
            context, [need_program(context, engine), "inspect", "--type", "container", "--format", form, name]
        )
        if done.exit != 0:
            return {"exists": False, "running": False, "enabled": False}
        running, _, policy = done.stdout.decode().strip().partition(" ")
        restarts = json.loads(policy or '""') or "no"
        return {
            "exists": True,
            "running": json.loads(running),
            "enabled": restarts != "no",
            "policy": restarts,
        }

    def stop(self, context: Context, name: str, found: Record) -> None:
        engine = self._engine(context)
        if found["enabled"]:
            _do(context, engine, "update", "--restart=no", name)
        if found["running"]:
            _do(context, engine, "stop", name)

    def start(self, context: Context, name: str, record: Record) -> None:
        engine = self._engine(context)
        if record["enabled"]:
            _do(context, engine, "update", f"--restart={record['policy']}", name)
        if record["running"]:
            _do(context, engine, "start", name)


class _Process:
    def look(self, context: Context, name: str) -> Record:
        found = [_described(context, pid) for pid in _running(context, name)]
        return {"exists": bool(found), "running": bool(found), "enabled": False, "processes": found}

    def stop(self, context: Context, name: str, found: Record) -> None:
        for process in found["processes"]:
            if str(process["unit"] or "").endswith(".service"):
                raise Failure(
                    f"process {process['pid']} belongs to {process['unit']}",
                    why="systemd would start it again",
                    fix=f"write `replaces: {{unit: {process['unit']}}}`",
                )
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in found["processes"]:
                with suppress(ProcessLookupError):
                    os.kill(process["pid"], number)
            end = time.monotonic() + STOP_SECONDS
            while _running(context, name):
                if time.monotonic() > end:
                    break
                time.sleep(0.05)
            else:
                return
        raise Failure(f"{name} does not end")

    def start(self, context: Context, name: str, record: Record) -> None:
        if _running(context, name):
            return
        for process in record["processes"]:
            scope = [need_program(context, "systemd-run"), "--scope", "--quiet", "--collect"]
            owner = [f"--uid={process['uid']}", f"--gid={process['gid']}"]
            with open(os.devnull, "r+b") as nothing:
                subprocess.Popen(
                    [*scope, *owner, "--", *process["command"]],
                    cwd=process["directory"],
                    env={"PATH": SEARCH_PATH, **process["environment"]},
                    stdin=nothing,
                    stdout=nothing,
                    stderr=nothing,
                    start_new_session=True,
                )


KINDS: dict[str, _Unit | _Container | _Process] = {
    "unit": _Unit(),
    "container": _Container(),
    "process": _Process(),
}


def _running(context: Context, executable: str) -> list[int]:
    """Return the processes that run a program and are not of a unit of ours."""
    numbers = [int(name) for name in os.listdir(context.path("/proc")) if name.isdigit()]
    there = [pid for pid in numbers if executable_of(context, pid) == executable]
    return sorted(pid for pid in there if not str(unit_of(context, pid) or "").startswith(OURS))


def _described(context: Context, pid: int) -> Record:
    directory = context.path(f"/proc/{pid}")
    with open(f"{directory}/environ", "rb") as file:
        pairs = [item.partition(b"=") for item in file.read().split(b"\0") if item]
    status = os.stat(directory)
    return {
        "pid": pid,
        "command": command_of(context, pid),
        "directory": os.readlink(f"{directory}/cwd"),
        "environment": {
            key.decode(errors="surrogateescape"): value.decode(errors="surrogateescape")
            for key, _, value in pairs
        },
        "uid": status.st_uid,
        "gid": status.st_gid,
        "unit": unit_of(context, pid),
    }


def _chosen(item: dict[str, Any]) -> tuple[_Unit | _Container | _Process, str]:
    kind = arg.text(item, "kind")
    if kind not in KINDS:
        raise bad_request(f"not a kind of predecessor: {kind!r}")
    return KINDS[kind], arg.text(item, "name")


def _told(found: Record) -> Record:
    """Return what may be repeated of it."""
    return {key: found[key] for key in ("exists", "running", "enabled")}


def observe_predecessor(context: Context, item: dict[str, Any]) -> dict[str, Any]:
    """Answer the `predecessor` object of `observe`."""
    kind, name = _chosen(item)
    return _told(kind.look(context, name))


def retire(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Stop it for good, after writing down what it was; what was written down before stays."""
    kind, name = _chosen(arguments)
    found = kind.look(context, name)
    path = context.path(arg.text(arguments, "record"))
    if not os.path.exists(path):
        atomic.make_directories(os.path.dirname(path))
        content = json.dumps({"kind": arg.text(arguments, "kind"), "name": name, **found})
        with atomic.replacing(path, 0o600) as descriptor:
            atomic.write_all(descriptor, content.encode(errors="surrogateescape"))
    kind.stop(context, name, found)
    return _told(found)


def revive(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Bring it back as it was written down, and forget that; `revived` tells whether there was anything."""
    path = context.path(arg.text(arguments, "record"))
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            record = json.load(file)
    except FileNotFoundError:
        return {"revived": False}
    start: Callable[[Context, str, Record], None] = KINDS[record["kind"]].start
    start(context, record["name"], record)
    remove_path(path)
    return {"revived": bool(record["running"])}
