"""A crash at any point leaves the old content or the new."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hetctl.agent import atomic

STEPS = ["os.open", "os.write", "os.fchmod", "os.fsync", "os.close", "os.replace"]


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


CRASH = """
import os, signal, sys
from hetctl.agent import atomic
name, path = sys.argv[1:]
original = getattr(os, name.removeprefix("os."))
def crash(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, name.removeprefix("os."), crash)
atomic.write_json(path, {"content": "new"})
"""


@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_at_any_step_leaves_the_old_file(tmp_path: Path, step: str) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", CRASH, step, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    assert all(name == "f" or name.startswith(".hetctl-") for name in names_in(tmp_path))


@pytest.mark.parametrize("step", ["write", "fchmod", "fsync", "replace"])
def test_an_error_at_any_step_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "f"
    path.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space"):
        atomic.write_json(str(path), {"content": "new"})
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["f"]


def test_content_and_directory_are_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_sync(descriptor: int) -> None:
        order.append("directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")  # noqa: PTH112 - a descriptor
        fsync(descriptor)

    def note_replace(source: str, target: str) -> None:
        order.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    atomic.write_json(str(tmp_path / "f"), {})
    assert order == ["file", "rename", "directory"]


def test_parents_are_made_open_and_reported_from_the_outside_in(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        made = atomic.make_directories(str(tmp_path / "a/b/c"), 0o700)
    finally:
        os.umask(old)
    assert [os.path.relpath(path, tmp_path) for path in made] == ["a", "a/b", "a/b/c"]
    assert [Path(path).stat().st_mode & 0o777 for path in made] == [0o755, 0o755, 0o700]
