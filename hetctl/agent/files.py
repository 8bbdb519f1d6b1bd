"""Files and directories: their state, reading, writing, resuming."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent import atomic, directories
from hetctl.agent.failures import Failure, Interruption, bad_request

if TYPE_CHECKING:
    from hetctl.agent.context import Context

BLOCK = 1 << 20
LONGEST_LINE = 200
LONGEST_READ = 64 << 20


def digest_of(path: str) -> str:
    """Return the sha256 of a file's content, in hex."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def kind_of(mode: int) -> str:
    """Return what a path is: `file`, `directory`, `symlink` or `other`."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def state(path: str, expect: dict[str, Any] | None = None, *, hashed: bool = False) -> dict[str, Any]:
    """Return what stands at a path, links not followed.

    Arguments:
        path: Where to look.
        expect: Size, mtime_ns, inode and sha256 of a former look: while the first three hold, so does the
            hash.
        hashed: Give the sha256 of a file even without `expect`.
    """
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return {"exists": False}
    kind = kind_of(status.st_mode)
    found: dict[str, Any] = {
        "exists": True,
        "kind": kind,
        "mode": stat.S_IMODE(status.st_mode),
        "uid": status.st_uid,
        "gid": status.st_gid,
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "inode": status.st_ino,
    }
    if kind == "symlink":
        found["target"] = os.readlink(path)
    if kind == "file" and (hashed or expect is not None):
        known = expect or {}
        same = all(known.get(key) == found[key] for key in ("size", "mtime_ns", "inode"))
        found["sha256"] = known["sha256"] if same and known.get("sha256") else digest_of(path)
    return found


def observe_file(context: Context, item: dict[str, Any]) -> dict[str, Any]:
    """Answer the `file` object of `observe`."""
    expect = arg.table(item, "expect") if item.get("expect") is not None else None
    path = context.path(arg.text(item, "path"))
    found = state(path, expect, hashed=arg.flag(item, "hash"))
    if arg.flag(item, "first_line") and found.get("kind") == "file":
        with open(path, encoding="utf-8", errors="replace") as file:
            found["first_line"] = file.readline(LONGEST_LINE).rstrip("\n")
    return found


def read_file(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the first `limit` bytes of a file in base64; `size` tells how much there is."""
    limit = arg.integer(arguments, "limit", 1 << 20)
    if not 0 <= limit <= LONGEST_READ:
        raise bad_request(f"limit must be between 0 and {LONGEST_READ}")
    path = arg.text(arguments, "path")
    try:
        with open(context.path(path), "rb") as file:
            content = file.read(limit)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise Failure(f"{path} cannot be read", why=str(error)) from error
    return {"content": base64.b64encode(content).decode(), "size": max(size, len(content))}


def make_directories(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Make directories with their missing parents; existing ones get the mode asked for."""
    created = []
    for item in arg.tables(arguments, "paths"):
        path, mode = context.path(arg.text(item, "path")), arg.mode(item, default=0o755)
        created += directories.make(context, path, mode)
        if stat.S_IMODE(os.stat(path).st_mode) != mode:
            os.chmod(path, mode)
    return {"created": [context.node_path(path) for path in created]}


def _partial_path(path: str, sha256: str) -> str:
    if not sha256 or set(sha256) - set("0123456789abcdef"):
        raise bad_request(f"not a sha256: {sha256!r}")
    return os.path.join(os.path.dirname(path), f"{atomic.TEMPORARY}partial-{sha256}")


def partial(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return how much of an interrupted upload is there."""
    path = _partial_path(context.path(arg.text(arguments, "path")), arg.text(arguments, "sha256"))
    try:
        return {"size": os.lstat(path).st_size}
    except (FileNotFoundError, NotADirectoryError):
        return {"size": 0}


class WrongContent(Failure):
    """What arrived is not what was announced: useless to keep."""


class _Incoming:
    """An unfinished file that receives an upload."""

    def __init__(self, path: str, sha256: str | None, offset: int, *, resume: bool) -> None:
        self.resume = resume
        self.digest = hashlib.sha256()
        if resume:
            self.temporary = _partial_path(path, sha256 or "")
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        else:
            self.temporary = atomic.temporary_beside(path)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        self.descriptor = os.open(self.temporary, flags, 0o600)
        self.size = 0
        if resume:
            self._continue_at(offset)

    def _continue_at(self, offset: int) -> None:
        there = os.fstat(self.descriptor).st_size
        if there < offset:
            os.close(self.descriptor)
            raise Failure(
                "the partial file is shorter than the sender believes", why=f"{there} < {offset} bytes"
            )
        os.ftruncate(self.descriptor, offset)
        while self.size < offset:
            block = os.read(self.descriptor, BLOCK)
            self.digest.update(block)
            self.size += len(block)

    def write(self, block: bytes) -> None:
        atomic.write_all(self.descriptor, block)
        self.digest.update(block)
        self.size += len(block)

    def drop(self) -> None:
        os.unlink(self.temporary)


def _check_space(directory: str, needed: int) -> None:
    free = os.statvfs(directory)
    available = free.f_bavail * free.f_frsize
    if available < needed:
        raise Failure(
            f"not enough space in {directory}",
            why=f"{needed} bytes needed, {available} free",
            fix="free some space or choose another directory in the node's `paths`",
        )


def put_file(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write a file from the request's body.

    A secret's state carries no hash of its content, only the HMAC with the node's salt. With `resume`, what
    arrived of an interrupted upload is kept, and `offset` says where this one goes on.
    """
    asked = arg.text(arguments, "path")
    path = context.path(asked)
    sha256, secret = arg.optional_text(arguments, "sha256"), arg.flag(arguments, "secret")
    offset, size = arg.integer(arguments, "offset", 0), arguments.get("size")
    mode = arg.mode(arguments, default=0o600 if secret else 0o644)
    uid, gid = arg.integer(arguments, "uid", os.geteuid()), arg.integer(arguments, "gid", os.getegid())
    resume = arg.flag(arguments, "resume")
    if resume and (sha256 is None or secret):
        raise bad_request("resume needs sha256, and is not for secrets")
    if os.path.isdir(path) and not os.path.islink(path):
        raise Failure(f"{asked} is a directory")
    created = directories.make(context, os.path.dirname(path))
    if isinstance(size, int):
        _check_space(os.path.dirname(path), size - offset)
    key = _salt_for(context) if secret else b""
    incoming = _Incoming(path, sha256, offset, resume=resume)
    fingerprint = _Fingerprint(key) if secret else None
    try:
        try:
            for block in context.upload():
                incoming.write(block)
                if fingerprint:
                    fingerprint.update(block)
            _check_content(asked, incoming, sha256, size)
            atomic.finish(incoming.descriptor, mode, uid, gid)
        finally:
            os.close(incoming.descriptor)
        os.replace(incoming.temporary, path)
    except BaseException as error:
        cut_short = isinstance(error, Failure | Interruption) and not isinstance(error, WrongContent)
        if not (resume and cut_short):
            incoming.drop()
        raise
    atomic.sync_directory(os.path.dirname(path))
    found = state(path)
    answer: dict[str, Any] = {"state": found, "created_directories": [context.node_path(p) for p in created]}
    if fingerprint:
        answer["hmac"] = fingerprint.hexdigest()
    else:
        found["sha256"] = incoming.digest.hexdigest()
    return answer


def _check_content(asked: str, incoming: _Incoming, sha256: str | None, size: Any) -> None:
    if isinstance(size, int) and incoming.size != size:
        raise WrongContent(f"{asked}: {incoming.size} bytes arrived, {size} were announced")
    if sha256 is not None and incoming.digest.hexdigest() != sha256:
        raise WrongContent(
            f"{asked}: the content that arrived is not the one announced",
            why=f"sha256 {incoming.digest.hexdigest()}, expected {sha256}",
        )


class _Fingerprint:
    """HMAC-SHA256 with the node's salt: tells whether a secret changed without telling what it is."""

    def __init__(self, key: bytes) -> None:
        import hmac  # noqa: PLC0415 - only for secrets

        self._hmac = hmac.new(key, digestmod="sha256")

    def update(self, block: bytes) -> None:
        self._hmac.update(block)

    def hexdigest(self) -> str:
        return self._hmac.hexdigest()


def _salt_for(context: Context) -> bytes:
    from hetctl.agent.marks import ensure_salt  # noqa: PLC0415 - only for secrets

    return bytes.fromhex(ensure_salt(context))
