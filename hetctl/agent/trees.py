"""Directory trees: listing, comparing, receiving and sending them as tar."""

from __future__ import annotations

import os
import stat
from typing import IO, TYPE_CHECKING, Any, cast

from hetctl.agent import arguments as arg
from hetctl.agent import directories
from hetctl.agent.atomic import sync_directory, temporary_beside
from hetctl.agent.failures import Failure
from hetctl.agent.files import digest_of, kind_of
from hetctl.agent.removal import remove_path
from hetctl.agent.swap import put_in_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetctl.agent.context import Context

Entry = dict[str, Any]


def walk(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every path below `top`, relative and in a stable order, directories before what is in them."""
    pending = [""]
    while pending:
        directory = pending.pop()
        with os.scandir(os.path.join(top, directory)) as entries:
            names = sorted(entries, key=lambda entry: entry.name)
        below = []
        for entry in names:
            relative = f"{directory}/{entry.name}" if directory else entry.name
            status = entry.stat(follow_symlinks=False)
            yield relative, status
            if stat.S_ISDIR(status.st_mode):
                below.append(relative)
        pending += reversed(below)


def describe(top: str, relative: str, status: os.stat_result) -> Entry:
    """Return what a tree's record holds of one path; the sha256 of a file is left to the caller."""
    kind = kind_of(status.st_mode)
    entry: Entry = {"path": relative, "kind": kind, "mode": stat.S_IMODE(status.st_mode)}
    if kind == "symlink":
        entry["target"] = os.readlink(os.path.join(top, relative))
    if kind == "file":
        entry |= {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "inode": status.st_ino}
    return entry


def listing(top: str) -> list[Entry]:
    """Return the record of a whole tree, every file hashed."""
    found = []
    for relative, status in walk(top):
        entry = describe(top, relative, status)
        if entry["kind"] == "file":
            entry["sha256"] = digest_of(os.path.join(top, relative))
        found.append(entry)
    return found


def _differs(top: str, recorded: Entry, found: Entry) -> bool:
    """Compare by what stat says; read a file only when that leaves a doubt."""
    if any(found.get(key) != recorded.get(key) for key in ("kind", "mode", "target") if key in recorded):
        return True
    if found["kind"] != "file":
        return False
    if found["size"] != recorded.get("size"):
        return True
    if all(found[key] == recorded.get(key) for key in ("mtime_ns", "inode")):
        return False
    return digest_of(os.path.join(top, found["path"])) != recorded.get("sha256")


def observe_tree(context: Context, item: Entry) -> Entry:
    """Answer the `tree` object of `observe`: what is missing, different or too much."""
    top = context.path(arg.text(item, "path"))
    if not os.path.isdir(top) or os.path.islink(top):
        return {"exists": False, "missing": [], "different": [], "extra": []}
    recorded = {arg.text(entry, "path"): entry for entry in arg.tables(item, "files")}
    found = {relative: describe(top, relative, status) for relative, status in walk(top)}
    return {
        "exists": True,
        "missing": sorted(set(recorded) - set(found)),
        "different": sorted(
            path for path in set(found) & set(recorded) if _differs(top, recorded[path], found[path])
        ),
        "extra": sorted(set(found) - set(recorded)),
    }


def hash_tree(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a tree."""
    path = arg.text(arguments, "path")
    top = context.path(path)
    if not os.path.isdir(top):
        raise Failure(f"{path} is not a directory")
    return {"files": listing(top)}


def sync_tree(top: str) -> None:
    """Make a tree durable, files first."""
    directories = [top]
    for relative, status in walk(top):
        path = os.path.join(top, relative)
        if stat.S_ISDIR(status.st_mode):
            directories.append(path)
        elif stat.S_ISREG(status.st_mode):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    for path in reversed(directories):
        sync_directory(path)


def put_tree(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Unpack the tar in the request's body beside `path`, make it durable, then give it its name."""
    from hetctl.agent.archives import block_stream, extract_tar  # noqa: PLC0415 - tarfile loads slowly

    path = context.path(arg.text(arguments, "path"))
    created = directories.make(context, os.path.dirname(path))
    unfinished = temporary_beside(path)
    os.mkdir(unfinished, 0o700)
    try:
        extract_tar(block_stream(context.upload()), unfinished)
        os.chmod(unfinished, arg.mode(arguments, default=0o755))
        sync_tree(unfinished)
        put_in_place(unfinished, path)
    except BaseException:
        remove_path(unfinished)
        raise
    return {"files": listing(path), "created_directories": [context.node_path(place) for place in created]}


class _BodyWriter:
    """Sends what tarfile writes in blocks of a good size."""

    SIZE = 1 << 18

    def __init__(self, context: Context) -> None:
        self._context = context
        self._buffer = bytearray()

    def write(self, data: bytes) -> int:
        self._buffer += data
        while len(self._buffer) >= self.SIZE:
            self._context.body(bytes(self._buffer[: self.SIZE]))
            del self._buffer[: self.SIZE]
        return len(data)

    def finish(self) -> None:
        if self._buffer:
            self._context.body(bytes(self._buffer))


def get_tree(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Send a tree as tar, with the owners taken out: the same tree gives the same bytes."""
    import tarfile  # noqa: PLC0415 - loads slowly

    path = arg.text(arguments, "path")
    top = context.path(path)
    if not os.path.isdir(top):
        raise Failure(f"{path} is not a directory")
    writer = _BodyWriter(context)
    with tarfile.open(fileobj=cast("IO[bytes]", writer), mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for relative, _ in walk(top):
            member = archive.gettarinfo(os.path.join(top, relative), arcname=relative)
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = int(member.mtime)
            if member.isfile():
                with open(os.path.join(top, relative), "rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
    writer.finish()
    return {}
