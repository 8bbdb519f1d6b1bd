"""Unpacking tar and zip archives so that nothing lands outside of the directory meant for it."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import tarfile
import zlib
from typing import IO, TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent import directories
from hetctl.agent.atomic import temporary_beside
from hetctl.agent.extraction import COPY_SIZE, Target, safe_path
from hetctl.agent.failures import Failure, bad_request
from hetctl.agent.processes import need_program, started
from hetctl.agent.removal import remove_path
from hetctl.agent.swap import put_in_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetctl.agent.context import Context

try:
    from lzma import LZMAError
except ImportError:  # a Python that was built without it reads no xz either
    DAMAGED: tuple[type[Exception], ...] = (tarfile.TarError, zlib.error, EOFError)
else:
    DAMAGED = (tarfile.TarError, zlib.error, EOFError, LZMAError)

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZIP_MAGIC = b"PK"
SYMLINK_IN_ZIP = 0o120000


class _Blocks(io.RawIOBase):
    """A readable stream over blocks of bytes."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__()
        self._blocks = blocks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._left = memoryview(block)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def block_stream(blocks: Iterator[bytes]) -> IO[bytes]:
    """Return a stream over blocks of bytes."""
    return io.BufferedReader(_Blocks(blocks), COPY_SIZE)


class _Archive(tarfile.TarFile):
    """A tar that tells whether its end mark was reached: tarfile takes one that was cut for a whole one."""

    whole = False


class _Member(tarfile.TarInfo):
    """Notes the end mark."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> _Member:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # typeshed leaves it out
            if isinstance(archive, _Archive):
                archive.whole = True
            raise


def extract_tar(
    stream: IO[bytes], top: str, rename: Callable[[str], str | None] = safe_path, *, mode: str = "r|"
) -> Target:
    """Unpack a tar.

    Arguments:
        stream: The archive.
        top: An empty directory.
        rename: Gives the path of a member below `top`, None to leave it out.
        mode: `r|` for a plain tar that can only be read forwards, `r:*` for any compression in a file.

    Raises:
        Failure: It is damaged or incomplete, or reaches out of `top`.
    """
    target = Target(top)
    try:
        with _Archive.open(fileobj=stream, mode=mode, tarinfo=_Member) as archive:  # type: ignore[call-overload]  # typeshed has no overload for streams
            for member in archive:
                _extract_member(archive, member, target, rename)
            while archive.fileobj.read(COPY_SIZE):
                pass  # to the end, where the compressed formats have their checksum
    except DAMAGED as error:
        raise Failure("this is no tar archive, or it is damaged", why=str(error)) from error
    if not archive.whole:
        raise Failure("the archive ends early")
    target.finish()
    return target


def _extract_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, target: Target, rename: Callable[[str], str | None]
) -> None:
    path = rename(safe_path(member.name))
    if not path:
        return
    if member.isdir():
        target.directory(path, member.mode)
    elif member.isreg():
        source = archive.extractfile(member)
        if source is not None:
            target.file(path, source, member.mode, member.mtime)
    elif member.issym():
        target.symlink(path, member.linkname)
    elif member.islnk():
        linked = rename(safe_path(member.linkname))
        if linked:
            target.hard_link(path, linked)
    else:
        raise Failure(f"the archive has a member that is neither file, directory nor link: {member.name!r}")


def extract_zip(path: str, top: str, rename: Callable[[str], str | None]) -> Target:
    """Unpack a zip archive."""
    import zipfile  # noqa: PLC0415 - rarely needed

    target = Target(top)
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                place = rename(safe_path(member.filename))
                mode = member.external_attr >> 16
                if not place:
                    continue
                if member.is_dir():
                    target.directory(place, mode or 0o755)
                elif stat.S_IFMT(mode) == SYMLINK_IN_ZIP:
                    target.symlink(place, archive.read(member).decode())
                else:
                    with archive.open(member) as source:
                        target.file(place, source, mode or 0o644, 0)
    except zipfile.BadZipFile as error:
        raise Failure("this is no zip archive, or it is damaged", why=str(error)) from error
    target.finish()
    return target


def renaming(strip: int, subdirectory: str) -> Callable[[str], str | None]:
    """Return the rule that strips leading components and keeps what lies in one subdirectory."""
    wanted = safe_path(subdirectory)

    def rename(path: str) -> str | None:
        rest = "/".join(path.split("/")[strip:])
        if not wanted:
            return rest or None
        return rest[len(wanted) + 1 :] or None if rest.startswith(wanted + "/") else None

    return rename


def _extract_zstd(context: Context, path: str, top: str, rename: Callable[[str], str | None]) -> Target:
    """Unpack a tar that older Pythons cannot decompress themselves."""
    zstd = need_program(context, "zstd", "install zstd on the node, or use an archive packed with gzip or xz")
    with started(context, [zstd, "-dcq", path], stderr=subprocess.DEVNULL) as process:
        if process.stdout is None:
            raise Failure("zstd gives no output")
        target = extract_tar(process.stdout, top, rename)
        if process.wait() != 0:
            raise Failure("the archive is damaged", why=f"zstd ended with {process.returncode}")
    return target


def _extract_any(context: Context, archive: str, top: str, rename: Callable[[str], str | None]) -> Target:
    with open(archive, "rb") as file:
        magic = file.read(4)
        file.seek(0)
        if magic.startswith(ZIP_MAGIC):
            target = extract_zip(archive, top, rename)
        elif magic == ZSTD_MAGIC:
            target = _extract_zstd(context, archive, top, rename)
        else:
            target = extract_tar(file, top, rename, mode="r:*")
    if not target.files:
        raise Failure(f"{archive} holds nothing that was asked for")
    return target


def unpack(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Unpack an archive that lies on the node beside `path`, then give it that name.

    Returns:
        Number of files and bytes, and the directories made above `path`.
    """
    archive, path = context.path(arg.text(arguments, "archive")), context.path(arg.text(arguments, "path"))
    strip = arg.integer(arguments, "strip", 0)
    if strip < 0:
        raise bad_request("strip must not be negative")
    rename = renaming(strip, arg.text(arguments, "subdirectory", ""))
    created = directories.make(context, os.path.dirname(path))
    unfinished = temporary_beside(path)
    os.mkdir(unfinished, 0o755)
    try:
        target = _extract_any(context, archive, unfinished, rename)
        put_in_place(unfinished, path)
    except BaseException:
        remove_path(unfinished)
        raise
    return {
        "files": target.files,
        "bytes": target.bytes,
        "created_directories": [context.node_path(place) for place in created],
    }
