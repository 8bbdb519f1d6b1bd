"""What a node is: raw facts, nothing judged."""

from __future__ import annotations

import grp
import os
import platform
import stat
import subprocess
import time
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent.listeners import listeners
from hetctl.agent.marks import read_salt
from hetctl.agent.network import addresses
from hetctl.agent.process_groups import leave, start
from hetctl.agent.processes import base_environment, find_program

if TYPE_CHECKING:
    from hetctl.agent.context import Context

TOOLS = ("gcc", "g++", "cmake", "ninja", "make", "ccache", "nft", "systemctl", "python3", "ldd", "tar")
TOOL_SECONDS = 5.0


def _read(context: Context, path: str) -> str:
    try:
        with open(context.path(path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def parse_assignments(text: str) -> dict[str, str]:
    """Return the KEY=value lines of a file like /etc/os-release, quotes removed."""
    found = {}
    for line in text.splitlines():
        key, separator, value = line.strip().partition("=")
        if separator and not key.startswith("#"):
            found[key] = value.strip().strip("\"'")
    return found


def _table(text: str) -> dict[str, str]:
    """Return the `key : value` lines of a text."""
    found = {}
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if separator:
            found[key.strip()] = value.strip()
    return found


def parse_cpu(text: str) -> dict[str, Any]:
    """Return model, flags and number of physical cores from the text of /proc/cpuinfo."""
    processors = [_table(block) for block in text.split("\n\n") if block.strip()]
    numbered = [found for found in processors if "processor" in found]
    first = numbered[0] if numbered else {}
    cores = {(found.get("physical id"), found["core id"]) for found in numbered if "core id" in found}
    return {
        "model": first.get("model name") or first.get("Model") or "",
        "flags": sorted((first.get("flags") or first.get("Features") or "").split()),
        "cores": len(cores) or len(numbered),
        "threads": len(numbered),
    }


def parse_memory(text: str) -> dict[str, int]:
    """Return total and available bytes from the text of /proc/meminfo, which counts in KiB."""
    found = _table(text)

    def size(key: str) -> int:
        words = found.get(key, "").split()
        return int(words[0]) * 1024 if words else 0

    return {"total": size("MemTotal"), "available": size("MemAvailable")}


def _disk(context: Context, path: str) -> dict[str, Any]:
    place = context.path(path)
    while not os.path.exists(place) and place not in ("", "/"):
        place = os.path.dirname(place)
    status = os.statvfs(place or "/")
    return {
        "total": status.f_blocks * status.f_frsize,
        "free": status.f_bavail * status.f_frsize,
        "closed": _closed(context, place),
        "noexec": bool(status.f_flag & os.ST_NOEXEC),
    }


def _closed(context: Context, place: str) -> str:
    """Return the outermost directory on the way to a place that other users may not pass; empty for none."""
    closed = ""
    while len(place) > len(context.root):
        if os.path.isdir(place) and not os.stat(place).st_mode & stat.S_IXOTH:
            closed = context.node_path(place)
        place = os.path.dirname(place) if place != "/" else ""
    return closed


def _tools(context: Context) -> dict[str, Any]:
    """Ask all programs for their version at once."""
    found: dict[str, Any] = {}
    running = []
    for name in TOOLS:
        path = find_program(context, name)
        found[name] = None if path is None else {"path": context.node_path(path), "version": ""}
        if path is None:
            continue
        process = start(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=base_environment(),
        )
        running.append((name, process))
    limit = time.monotonic() + TOOL_SECONDS
    try:
        for name, process in running:
            try:
                output, _ = process.communicate(timeout=max(0.01, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                continue  # a tool that hangs has no version
            lines = output.decode(errors="replace").strip().splitlines()
            found[name]["version"] = lines[0] if lines else ""
    finally:
        for _, process in running:
            leave(process)
            if process.stdout is not None:
                process.stdout.close()
    return found


def _glibc() -> str | None:
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):  # another C library
        return None
    return version.split()[-1] if version else None


def _groups(context: Context) -> list[str]:
    if not context.root:
        return sorted({entry.gr_name for entry in grp.getgrall()})
    return sorted(line.partition(":")[0] for line in _read(context, "/etc/group").splitlines() if line)


def facts(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of this node; `paths` names the places whose disk space matters."""
    system = os.uname()
    return {
        "hostname": system.nodename if not context.root else _read(context, "/etc/hostname").strip(),
        "machine_id": _read(context, "/etc/machine-id").strip(),
        "boot_id": _read(context, "/proc/sys/kernel/random/boot_id").strip(),
        "kernel": system.release,
        "os_release": parse_assignments(_read(context, "/etc/os-release")),
        "architecture": system.machine,
        "python": platform.python_version(),
        "glibc": _glibc(),
        "pid1": _read(context, "/proc/1/comm").strip(),
        "uid": os.geteuid(),
        "cpu": parse_cpu(_read(context, "/proc/cpuinfo")),
        "memory": parse_memory(_read(context, "/proc/meminfo")),
        "addresses": addresses(),
        "listeners": listeners(context) if os.path.exists(context.path("/proc/net/tcp")) else [],
        "disks": {path: _disk(context, path) for path in arg.texts(arguments, "paths", [])},
        "tools": _tools(context),
        "salt": read_salt(context),
        "groups": _groups(context),
    }
