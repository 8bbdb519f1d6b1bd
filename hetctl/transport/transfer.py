"""Sending files from the operator's machine, resumed where an earlier attempt stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from hetctl.transport.base import Json, Session

BLOCK = 1 << 18

Progress = Callable[[int, int], None]
"""Called with the bytes that are there and the bytes in all."""


def sha256_of(path: Path) -> str:
    """Return the sha256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def send_file(
    session: Session,
    source: Path,
    path: str,
    *,
    mode: int = 0o644,
    uid: int = 0,
    gid: int = 0,
    sha256: str | None = None,
    deadline: float = 3600.0,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> dict[str, Json]:
    """Copy a file to a node; what an interrupted attempt left there is not sent again.

    Arguments:
        session: A session that may write.
        source: The file here.
        path: Absolute path on the node.
        mode: Permission bits.
        uid: Owner.
        gid: Group.
        sha256: Hash of the content when it is known already; else it is computed first.
        deadline: Seconds the whole transfer may take.
        progress: Told about every block.
        stop: As in `Session.call`; what arrived stays for the next attempt.

    Returns:
        The answer of `put_file`.
    """
    digest = sha256 or sha256_of(source)
    size = source.stat().st_size
    there = int(session.call("partial", {"path": path, "sha256": digest})["size"])
    offset = there if there <= size else 0
    return session.call(
        "put_file",
        {
            "path": path,
            "mode": mode,
            "uid": uid,
            "gid": gid,
            "sha256": digest,
            "size": size,
            "resume": True,
            "offset": offset,
        },
        deadline=deadline,
        upload=_blocks(source, offset, size, progress),
        stop=stop,
    )


def _blocks(source: Path, offset: int, size: int, progress: Progress | None) -> Iterator[bytes]:
    done = offset
    with source.open("rb") as file:
        file.seek(offset)
        while block := file.read(BLOCK):
            yield block
            done += len(block)
            if progress is not None:
                progress(done, size)
