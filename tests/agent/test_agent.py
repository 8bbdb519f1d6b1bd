"""Rules that hold for the agent as a whole."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hetctl.agent
from hetctl.agent.operations import OPERATIONS

FILES = sorted(Path(hetctl.agent.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_module_needs_the_standard_library_and_its_neighbours_alone(file: Path) -> None:
    for part in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        if isinstance(part, ast.Import):
            names = [name.name for name in part.names]
        elif isinstance(part, ast.ImportFrom):
            assert part.level == 0
            names = [part.module or ""]
        for name in names:
            assert name.split(".")[0] in sys.stdlib_module_names or name.startswith("hetctl.agent"), name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_module_is_python_3_10(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 10))


@pytest.mark.skipif(shutil.which("python3.10") is None, reason="no Python 3.10 here")
def test_every_module_is_imported_by_python_3_10() -> None:
    modules = ", ".join(f"hetctl.agent.{file.stem}" for file in FILES if file.stem != "__init__")
    root = FILES[0].parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); import {modules}"
    done = subprocess.run(["python3.10", "-ISB", "-c", code], capture_output=True, text=True, check=False)
    if "pyenv: python3.10: command not found" in done.stderr:
        pytest.skip("no Python 3.10 here")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_can_be_loaded(name: str) -> None:
    assert callable(OPERATIONS[name].load())


def test_starting_loads_no_slow_module() -> None:
    """Each of these would add milliseconds to every session."""
    slow = "argparse asyncio email http inspect logging pathlib shutil tarfile urllib zipfile".split()
    root = FILES[0].parents[2]
    code = (
        f"import sys; sys.path.insert(0, {str(root)!r}); before = set(sys.modules); import hetctl.agent.main;"
        f"print(*sorted(set({slow!r}) & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-ISB", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
