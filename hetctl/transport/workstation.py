"""The operator's own machine: files that are sent from it and the cache of what was compiled for nodes.

The cache only saves time. Deleting it changes no plan.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hetctl.errors import UsageError

BLOCK_SIZE = 1 << 20
HEADER_LIMIT = 1 << 20
CLAIM_PAUSE = 0.5
"""Seconds between two attempts to claim a build that another process compiles."""


@dataclass(frozen=True, slots=True)
class Workstation:
    """The operator's machine.

    Arguments:
        cache: Directory for what can be made again.
    """

    cache: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Workstation:
        """Return the workstation with its cache under `XDG_CACHE_HOME`, by default `~/.cache`."""
        base = environment.get("XDG_CACHE_HOME")
        return cls(cache=(Path(base) if base else Path.home() / ".cache") / "hetctl")

    def digest(self, path: Path) -> str:
        """Return the sha256 of a file, read again only when its size, time or inode changed."""
        key, known = self._digests(path)
        if key not in known:
            known[key] = file_digest(path)
            self._write(self.cache / "digests.json", json.dumps(known).encode())
        return known[key]

    def known_digest(self, path: Path) -> str | None:
        """Return the sha256 of a file when it can be told without reading the file."""
        key, known = self._digests(path)
        return known.get(key)

    def _digests(self, path: Path) -> tuple[str, dict[str, str]]:
        status = path.stat()
        key = f"{path.resolve()}:{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"
        with suppress(OSError, ValueError):
            return key, json.loads((self.cache / "digests.json").read_text())
        return key, {}

    def recall(self, kind: str, content: str) -> Any:
        """Return what was remembered of a content, None when nothing was.

        Arguments:
            kind: What it is about, such as `models`.
            content: sha256 of the content.
        """
        with suppress(OSError, ValueError):
            return json.loads((self.cache / kind / f"{content}.json").read_text())
        return None

    def remember(self, kind: str, content: str, value: Any) -> None:
        """Keep a JSON value that follows from a content and takes time to work out again."""
        self._write(self.cache / kind / f"{content}.json", json.dumps(value).encode())

    def source(self, archive: Path) -> Source:
        """Return what a source archive holds, looked into once for each content."""
        store = self.cache / "sources" / f"{self.digest(archive)}.json"
        with suppress(OSError, ValueError, TypeError):
            return Source(**json.loads(store.read_text()))
        found = read_source(archive)
        self._write(store, json.dumps({"root": found.root, "rpc_header": found.rpc_header}).encode())
        return found

    def built(self, key: str) -> Mapping[str, Any] | None:
        """Return what is known of a compiled build, None when it is not in the cache."""
        try:
            found: Mapping[str, Any] = json.loads((self.cache / "builds" / f"{key}.json").read_text())
        except (OSError, ValueError):
            return None
        return found if self.build_archive(key).exists() else None

    def build_archive(self, key: str) -> Path:
        """Return where the tar of a compiled build lies or will lie."""
        return self.cache / "builds" / f"{key}.tar"

    def keep_build(self, key: str, archive: Path, description: Mapping[str, Any]) -> None:
        """Move a finished tar into the cache; the description comes last and makes it valid."""
        archive.replace(self.build_archive(key))
        self._write(self.cache / "builds" / f"{key}.json", json.dumps(description, indent=1).encode())

    @contextmanager
    def claimed(self, key: str, *, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the right to compile a build on behalf of this machine: one process at a time has it.

        Arguments:
            key: Of the build.
            waiting: Called again and again while another process has it; may raise to give up.
        """
        with self.scratch(f"{key}.lock").open("w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    waiting()
                    time.sleep(CLAIM_PAUSE)
            yield

    def scratch(self, name: str) -> Path:
        """Return a path for something unfinished; its directory exists."""
        path = self.cache / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.cache / "builds").mkdir(parents=True, exist_ok=True)
        return path

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(content)
        temporary.replace(path)


def blocks(path: Path) -> Iterator[bytes]:
    """Yield a file's content in blocks of at most 1 MiB."""
    with path.open("rb") as stream:
        while block := stream.read(BLOCK_SIZE):
            yield block


def archived_files(archive: Path) -> dict[str, str]:
    """Return the sha256 of each file in a tar, by its path in it."""
    found: dict[str, str] = {}
    with tarfile.open(archive) as container:
        for member in container:
            stream = container.extractfile(member) if member.isfile() else None
            if stream is not None:
                digest = hashlib.sha256()
                while block := stream.read(BLOCK_SIZE):
                    digest.update(block)
                found[member.name.removeprefix("./")] = digest.hexdigest()
    return found


def file_digest(path: Path) -> str:
    """Return the sha256 (hex) of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Source:
    """What a source archive of llama.cpp holds.

    Arguments:
        root: Directory in it with llama.cpp's CMakeLists.txt; empty for the archive's own top.
        rpc_header: Text of ggml/include/ggml-rpc.h.
    """

    root: str
    rpc_header: str


def read_source(archive: Path) -> Source:
    """Find llama.cpp in a source archive (tar in any compression, or zip).

    Raises:
        UsageError: The file is no archive, or llama.cpp is not in it.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                names = {name.removeprefix("./"): name for name in packed.namelist()}
                return _source(archive, names, packed.read)
        with tarfile.open(archive) as container:
            members = {item.name.removeprefix("./"): item.name for item in container if item.isfile()}

            def read(name: str) -> bytes:
                stream = container.extractfile(name)
                return stream.read(HEADER_LIMIT) if stream else b""

            return _source(archive, members, read)
    except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise UsageError("the source archive cannot be read", where=str(archive), why=str(error)) from error


def _source(archive: Path, names: Mapping[str, str], read: Callable[[str], bytes]) -> Source:
    marker, header = "ggml/CMakeLists.txt", "ggml/include/ggml-rpc.h"
    roots = [name[: -len(marker)] for name in names if name == marker or name.endswith(f"/{marker}")]
    roots = [root for root in roots if f"{root}CMakeLists.txt" in names and f"{root}{header}" in names]
    if not roots:
        raise UsageError(
            "the source archive holds no llama.cpp",
            where=str(archive),
            why=f"no directory in it has CMakeLists.txt, {marker} and {header}",
            fix="give the archive of a llama.cpp release or of a package that carries its source",
        )
    root = min(roots, key=lambda item: (len(PurePosixPath(item).parts), item))
    return Source(root=root.rstrip("/"), rpc_header=read(names[f"{root}{header}"]).decode(errors="replace"))
