"""The project's own files, as tests of the whole repository see them."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hetctl"


@cache
def project_files() -> tuple[Path, ...]:
    """Return every file that is in version control or would be added to it."""
    options = ["--cached", "--others", "--exclude-standard", "-z"]
    names = git("ls-files", *options).split("\0")
    return tuple(path for name in sorted(filter(None, names)) if (path := ROOT / name).is_file())


def git(*arguments: str) -> str:
    """Run git in the checkout, whoever owns it, and return its output."""
    argv = ["git", "-c", "safe.directory=*", "-C", str(ROOT), *arguments]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def package_modules() -> dict[str, Path]:
    """Return the path of each module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def syntax_tree(path: Path) -> ast.Module:
    """Parse a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports_of(tree: ast.AST, known: frozenset[str] = frozenset()) -> dict[str, int]:
    """Return the modules a file imports, wherever in it, with the first line of each.

    Arguments:
        tree: The file's syntax tree. Relative imports are not expected: the linter refuses them.
        known: Dotted names of modules, to tell `from package import module` from `from module import name`.
    """
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in within]
        else:
            continue
        for name in names:
            found.setdefault(name, node.lineno)
    return found
