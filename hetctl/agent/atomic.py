"""Writing files so that a crash leaves either the old content or the new, never a part of it."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPORARY = ".hetctl-"
"""How the names of unfinished files begin."""


def temporary_beside(path: str) -> str:
    """Return an unused name in the directory of `path` for something unfinished."""
    return os.path.join(os.path.dirname(path), f"{TEMPORARY}{os.getpid()}-{os.urandom(6).hex()}")


def sync_directory(path: str) -> None:
    """Make the entries of a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def give_to(descriptor: int, uid: int, gid: int) -> None:
    """Set owner and group unless they are right already (so that a user can write his own files)."""
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (uid, gid):
        os.fchown(descriptor, uid, gid)


@contextmanager
def replacing(path: str, mode: int, uid: int | None = None, gid: int | None = None) -> Iterator[int]:
    """Give a descriptor to write to; at the end it becomes `path` with this mode and owner.

    The file is readable by its owner alone until then. On an error nothing is left of it.
    """
    temporary = temporary_beside(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        try:
            yield descriptor
            finish(descriptor, mode, uid, gid)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_directory(os.path.dirname(path))


def finish(descriptor: int, mode: int, uid: int | None, gid: int | None) -> None:
    """Give an unfinished file its owner and mode and make it durable."""
    give_to(descriptor, os.geteuid() if uid is None else uid, os.getegid() if gid is None else gid)
    os.fchmod(descriptor, mode)  # after the owner, since chown clears setuid
    os.fsync(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_json(path: str, value: Any, mode: int = 0o644) -> None:
    """Replace `path` by a JSON document."""
    with replacing(path, mode) as descriptor:
        write_all(
            descriptor, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
        )


def make_directories(path: str, mode: int = 0o755) -> list[str]:
    """Make a directory and its missing parents (0755); return those that were made, outermost first."""
    missing = []
    place = path
    while place not in ("", "/") and not os.path.isdir(place):
        missing.append(place)
        place = os.path.dirname(place)
    made = []
    for place in reversed(missing):
        wanted = mode if place == path else 0o755
        try:
            os.mkdir(place, 0o700)
        except FileExistsError:
            if not os.path.isdir(place):
                raise
            continue
        os.chmod(place, wanted)
        made.append(place)
    return made
