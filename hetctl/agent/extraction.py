"""The directory that receives an archive's members, and the rules that keep them inside of it."""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
from typing import IO

from hetctl.agent.failures import Failure

COPY_SIZE = 1 << 18


def safe_path(name: str) -> str:
    """Return a member's path in its normal form.

    Raises:
        Failure: It would lie outside of the archive's directory.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise Failure(f"the archive has a member that escapes: {name!r}")
    return "/".join(parts)


def safe_link(path: str, target: str) -> str:
    """Return a symbolic link's target.

    Raises:
        Failure: It points outside of the archive's directory.
    """
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if target.startswith("/") or resolved == ".." or resolved.startswith("../"):
        raise Failure(f"the archive has a link that escapes: {path!r} -> {target!r}")
    return target


class Target:
    """The directory that receives members. Parents are checked not to be links, whatever came before."""

    def __init__(self, top: str) -> None:
        self.top = top
        self.files = 0
        self.bytes = 0
        self._checked: set[str] = {""}
        self._modes: list[tuple[str, int]] = []

    def _place(self, path: str) -> str:
        self._parents(posixpath.dirname(path))
        return os.path.join(self.top, path)

    def _parents(self, directory: str) -> None:
        if directory in self._checked:
            return
        self._parents(posixpath.dirname(directory))
        place = os.path.join(self.top, directory)
        try:
            os.mkdir(place, 0o755)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(place).st_mode):
                raise Failure(f"the archive puts a member below something else: {directory!r}") from None
        self._checked.add(directory)

    def directory(self, path: str, mode: int) -> None:
        """Note a directory; its mode is set at the end."""
        self._parents(path)
        self._modes.append((path, mode))

    def file(self, path: str, source: IO[bytes], mode: int, mtime: float) -> None:
        """Write a file; it must not be there yet."""
        place = self._place(path)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            shutil.copyfileobj(source, file, COPY_SIZE)
            self.bytes += file.tell()
            os.fchmod(descriptor, mode & 0o777)
        os.utime(place, (mtime, mtime))
        self.files += 1

    def symlink(self, path: str, target: str) -> None:
        """Make a symbolic link that stays inside."""
        os.symlink(safe_link(path, target), self._place(path))
        self.files += 1

    def hard_link(self, path: str, target: str) -> None:
        """Make a hard link to a file that was unpacked before."""
        source = self._place(target)
        if not stat.S_ISREG(os.lstat(source).st_mode):
            raise Failure(f"the archive links to something that is no file: {target!r}")
        os.link(source, self._place(path), follow_symlinks=False)
        self.files += 1

    def finish(self) -> None:
        """Give directories their modes last, since a read-only one takes no files."""
        for path, mode in reversed(self._modes):
            os.chmod(os.path.join(self.top, path), (mode & 0o777) | 0o700)
