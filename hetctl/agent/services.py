"""systemd units: their state and their life cycle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent.failures import Failure, bad_request
from hetctl.agent.processes import capture, need_program

if TYPE_CHECKING:
    from hetctl.agent.context import Context

PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "FragmentPath", "DropInPaths", "Result",
    "NeedDaemonReload", "MainPID", "ExecMainStartTimestampMonotonic", "InvocationID", "NRestarts",
    "ControlGroup",
)  # fmt: skip

ACTIONS = ("daemon-reload", "enable", "disable", "start", "stop", "restart", "reset-failed", "clean")


def checked_unit(name: str) -> str:
    """Return a unit name that no program takes for an option or a pattern."""
    if not name or name.startswith("-") or any(char in name for char in "*?[]/ \n\0") or "." not in name:
        raise bad_request(f"not the name of a unit: {name!r}")
    return name


def parse_show(text: str) -> list[dict[str, str]]:
    """Return the properties of each unit in the output of `systemctl show`, in its order."""
    blocks = [block for block in text.split("\n\n") if block.strip()]
    return [dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line) for block in blocks]


def _number(value: str) -> int:
    return int(value) if value.isdigit() else 0


def executable_of(context: Context, pid: int) -> str | None:
    """Return the program a process runs, None when it cannot be read."""
    try:
        return os.readlink(context.path(f"/proc/{pid}/exe"))
    except OSError:
        return None


def describe(context: Context, shown: dict[str, str]) -> dict[str, Any]:
    """Return the state of one unit from its properties."""
    pid = _number(shown.get("MainPID", ""))
    return {
        "load": shown.get("LoadState", ""),
        "active": shown.get("ActiveState", ""),
        "sub": shown.get("SubState", ""),
        "enabled": shown.get("UnitFileState", ""),
        "fragment": shown.get("FragmentPath", ""),
        "drop_ins": shown.get("DropInPaths", "").split(),
        "need_reload": shown.get("NeedDaemonReload") == "yes",
        "main_pid": pid,
        "exe": executable_of(context, pid) if pid else None,
        "started": _number(shown.get("ExecMainStartTimestampMonotonic", "")),
        "invocation": shown.get("InvocationID", ""),
        "result": shown.get("Result", ""),
        "restarts": _number(shown.get("NRestarts", "")),
        "control_group": shown.get("ControlGroup", ""),
    }


def unit_states(context: Context, names: list[str]) -> list[dict[str, Any]]:
    """Return the states of several units with one call of systemctl.

    Raises:
        Failure: systemd does not answer.
    """
    units = [checked_unit(name) for name in names]
    systemctl = need_program(context, "systemctl")
    done = capture(context, [systemctl, "show", f"--property={','.join(PROPERTIES)}", "--", *units])
    shown = parse_show(done.stdout.decode(errors="replace"))
    if done.exit != 0 or len(shown) != len(units):
        raise Failure(
            "systemd does not tell the state of its units", why=done.stderr.decode(errors="replace").strip()
        )
    return [describe(context, block) for block in shown]


def systemd(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run one systemctl verb on units and wait for its job."""
    action, units = arg.text(arguments, "action"), arg.texts(arguments, "units", [])
    if action not in ACTIONS:
        raise bad_request(f"not an action: {action!r}")
    if action != "daemon-reload" and not units:
        return {"exit": 0, "stderr": ""}
    argv = [need_program(context, "systemctl"), action]
    if action != "daemon-reload":
        argv += ["--", *(checked_unit(unit) for unit in units)]
    done = capture(context, argv)
    return {"exit": done.exit, "stderr": done.stderr.decode(errors="replace")}
