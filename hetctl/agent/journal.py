"""Lines of the systemd journal, once or as they come."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent.failures import Failure, bad_request
from hetctl.agent.processes import need_program, started
from hetctl.agent.services import checked_unit

if TYPE_CHECKING:
    from hetctl.agent.context import Context

MOST_LINES = 100_000


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return time, message and cursor of one line of `journalctl -o json`; None for anything else."""
    try:
        entry = json.loads(line)
        time = int(entry["__REALTIME_TIMESTAMP"]) / 1e6
    except (ValueError, KeyError, TypeError):
        return None
    message = entry.get("MESSAGE")
    if isinstance(message, list):  # journalctl writes bytes that are no UTF-8 as numbers
        message = bytes(message).decode(errors="replace")
    return {"time": time, "message": message or "", "cursor": entry.get("__CURSOR", "")}


def command(journalctl: str, arguments: dict[str, Any]) -> list[str]:
    """Return the journalctl command line for a request."""
    unit = checked_unit(arg.text(arguments, "unit"))
    lines = arg.integer(arguments, "lines", 100)
    if not 0 <= lines <= MOST_LINES:
        raise bad_request(f"lines must be between 0 and {MOST_LINES}")
    argv = [journalctl, "--output=json", "--no-pager", "--quiet", "--all", f"--lines={lines}"]
    if cursor := arg.optional_text(arguments, "after_cursor"):
        argv.append(f"--after-cursor={cursor}")
    if pattern := arg.optional_text(arguments, "grep"):
        argv.append(f"--grep={pattern}")
    if arg.flag(arguments, "follow"):
        argv.append("--follow")
    invocation = arg.optional_text(arguments, "invocation")
    if invocation is None:
        return [*argv, f"--unit={unit}"]
    if not invocation or set(invocation) - set("0123456789abcdef"):
        raise bad_request(f"not an invocation: {invocation!r}")
    # the first match is what the unit's processes wrote, the second what systemd wrote about them
    return [*argv, f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"INVOCATION_ID={invocation}"]


def journal(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return lines of a unit's journal; with `follow` each comes as an event until the deadline."""
    argv = command(need_program(context, "journalctl"), arguments)
    follow = arg.flag(arguments, "follow")
    found = []
    with started(context, argv, stderr=subprocess.STDOUT) as process:
        if process.stdout is None:
            raise Failure("journalctl gives no output")
        said = b""
        for line in process.stdout:
            entry = parse_line(line)
            if entry is None:
                said = line
            elif follow:
                context.event(entry)
            else:
                found.append(entry)
        # journalctl ends with 1 when --grep found nothing
        if process.wait() not in (0, 1) or (process.returncode == 1 and said):
            raise Failure("the journal cannot be read", why=said.decode(errors="replace").strip())
    return {"lines": found}
