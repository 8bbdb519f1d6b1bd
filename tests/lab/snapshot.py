"""What lies on a host's disk, to show that something left it as it was."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.host import Host

EXCLUDED = {
    "/proc": "made by the kernel",
    "/sys": "made by the kernel",
    "/dev": "made by the kernel and systemd-nspawn",
    "/run": "in memory, gone at the next boot",
    "/tmp": "programs may leave things here; cleaned by systemd-tmpfiles",
    "/var/tmp": "as /tmp",
    "/var/log/journal": "every login writes to it",
    "/var/log/wtmp": "every login writes to it",
    "/var/log/btmp": "every failed login writes to it",
    "/var/log/lastlog": "every login writes to it",
    "/var/lib/systemd": "systemd's own: random seed, time stamps of timers, catalogue",
    "/etc/.updated": "systemd's own: when it last looked at /etc",
    "/var/.updated": "systemd's own: when it last looked at /var",
    "/etc/.pwd.lock": "systemd's own: taken whenever a unit has a dynamic user",
}
"""Paths left out, with everything below them, and why; also what Python compiles of its own in /usr/lib."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path on a disk."""

    kind: str
    mode: int
    owner: int
    group: int
    size: int
    """Bytes; 0 for directories, whose size says nothing about their content."""
    content: str
    """sha256 of a file's content, or the target of a link."""


def snapshot(host: Host) -> dict[str, Entry]:
    """Return every path of a running host that is not `EXCLUDED`."""
    root = host.view()
    upper = host.directory / "disk/upper"
    found: dict[str, Entry] = {}
    for directory, names, files in os.walk(root):
        place = "/" + os.path.relpath(directory, root) if directory != str(root) else ""
        names[:] = [name for name in names if not _excluded(f"{place}/{name}")]
        for name in (*names, *files):
            path = f"{place}/{name}"
            if not _excluded(path):
                found[path] = _entry(root, upper, Path(host.lower), path.removeprefix("/"))
    return found


def difference(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> list[str]:
    """Return one line for each path that came, went or changed, by path; empty when the disks are alike."""
    lines = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old is None:
            lines.append(f"+ {path}: {new}")
        elif new is None:
            lines.append(f"- {path}: {old}")
        elif old != new:
            lines.append(f"~ {path}: {old} -> {new}")
    return lines


def _excluded(path: str) -> bool:
    return path in EXCLUDED or (path.startswith("/usr/lib/python3") and path.endswith("/__pycache__"))


def _entry(root: Path, upper: Path, lower: Path, path: str) -> Entry:
    status = (root / path).lstat()
    kind, content = "other", ""
    if stat.S_ISLNK(status.st_mode):
        kind, content = "symlink", str((root / path).readlink())
    elif stat.S_ISDIR(status.st_mode):
        kind = "directory"
    elif stat.S_ISREG(status.st_mode):
        kind = "file"
        written = os.path.lexists(upper / path)
        # what the host never wrote is shared with all others and immutable
        content = _sha256(root / path) if written else _cached_sha256(lower / path)
    size = 0 if kind == "directory" else status.st_size
    return Entry(kind, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, size, content)


@cache
def _cached_sha256(path: Path) -> str:
    return _sha256(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
