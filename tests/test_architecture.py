"""The rules of the code that can be checked by reading it."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.sources import PACKAGE, ROOT, imports_of, package_modules, project_files, syntax_tree

LAYERS = ("manifest", "facts", "catalog", "fit", "rules", "resources", "engine", "report", "cli")
"""Lowest first: each may import those before it."""

IMPORTED_BY = {"transport": {"resources", "engine", "cli", "transport"}, "agent": {"agent"}}
"""Packages beside the layers, and who may import them."""

MAY_IMPORT = {
    **{layer: {*LAYERS[: index + 1]} for index, layer in enumerate(LAYERS)},
    "transport": {"transport"},
    "agent": {"agent"},
}
ROOT_MODULES = {"errors": set[str](), "__init__": set[str](), "__main__": {"cli"}}

CONNECTING = {
    "socket",
    "socketserver",
    "ssl",
    "http",
    "urllib.request",
    "paramiko",
    "fabric",
    "invoke",
    "httpx",
}
MAY_CONNECT = {"transport", "agent"}
FORMATTING = {"rich"}
PRINTING = {"print", "pprint", "click.echo", "click.secho"}
AGENT_MAY_USE = {"pynvml"}  # besides the standard library

VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "stuff", "tools"}
LONGEST_FILE = 500

MODULES = package_modules()
KNOWN = frozenset(MODULES)


def package_of(module: str) -> str:
    """Return the package directly below hetctl that a module belongs to, or the module's own name there."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(module: str) -> dict[str, int]:
    return imports_of(syntax_tree(MODULES[module]), KNOWN)


def forbidden_imports(module: str, imported: Mapping[str, int]) -> list[str]:
    """Return one line for each import of `module` that goes the wrong way."""
    own = package_of(module)
    allowed = MAY_IMPORT.get(own, ROOT_MODULES.get(own, set()))
    lines = []
    for name, line in imported.items():
        if name.partition(".")[0] != "hetctl":
            continue
        other = package_of(name)
        if other in IMPORTED_BY:
            fine = own in IMPORTED_BY[other]
        else:
            fine = other in allowed or (other in {"errors", "__init__"} and own != "agent")
        if not fine:
            lines.append(f"{module}:{line} imports {name}")
    return lines


def import_cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of one import cycle in order, none when there is no cycle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def python_files() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py"]


def test_the_packages_are_those_of_the_design() -> None:
    found = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert found == {*LAYERS, *IMPORTED_BY}
    assert {path.stem for path in PACKAGE.glob("*.py")} == {*ROOT_MODULES}


def test_imports_go_one_way_only() -> None:
    assert [line for module in MODULES for line in forbidden_imports(module, imports(module))] == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {module: {name for name in imports(module) if name in KNOWN} - {module} for module in MODULES}
    assert import_cycle(graph) == []


def test_the_agent_needs_nothing_but_python() -> None:
    allowed = {"hetctl", *sys.stdlib_module_names, *AGENT_MAY_USE}
    assert used_outside(set(LAYERS) | {"transport"}, lambda name: name.partition(".")[0] not in allowed) == []


def test_nothing_else_opens_a_connection() -> None:
    assert used_outside(MAY_CONNECT, lambda name: bool({name, name.partition(".")[0]} & CONNECTING)) == []


def test_nothing_else_formats_for_people() -> None:
    assert used_outside({"report"}, lambda name: name.partition(".")[0] in FORMATTING) == []


def used_outside(packages: set[str], concerns: Callable[[str], bool]) -> list[str]:
    """Return one line for each import that `concerns` picks in modules of other packages than these."""
    return [
        f"{module}:{line} imports {name}"
        for module in MODULES
        if package_of(module) not in packages
        for name, line in imports(module).items()
        if concerns(name)
    ]


def test_nothing_else_prints() -> None:
    found = {
        module: printing_lines(syntax_tree(MODULES[module]))
        for module in MODULES
        if package_of(module) != "report"
    }
    assert {module: lines for module, lines in found.items() if lines} == {}


def printing_lines(tree: ast.AST) -> list[int]:
    """Return the lines that print."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if ast.unparse(call.func) in PRINTING]


def test_files_are_short() -> None:
    lengths = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in python_files()
    }
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_files_are_named_for_what_they_hold() -> None:
    names = [
        path for path in python_files() if {path.stem.removeprefix("test_"), path.parent.name} & VAGUE_NAMES
    ]
    assert names == []


def test_every_exception_from_a_check_says_why() -> None:
    found = {
        str(path.relative_to(ROOT)): unexplained(path.read_text(encoding="utf-8")) for path in python_files()
    }
    assert {path: comments for path, comments in found.items() if comments} == {}


def unexplained(source: str) -> list[str]:
    """Return the comments that switch a check off, for all codes or without a reason."""
    exception = re.compile(r"# (noqa|type: ?ignore|pragma|mypy:|ruff:)")
    explained = re.compile(
        r"# noqa: [A-Z]+\d+(, ?[A-Z]+\d+)* - \S.*|# type: ignore\[[\w, -]+\]( - |  ?# )\S.*"
    )
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return [text for text in comments if exception.match(text) and not explained.fullmatch(text)]


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("hetctl.manifest.a", "import hetctl.errors", 0),
        ("hetctl.manifest.a", "from hetctl.facts import node", 1),
        ("hetctl.engine.a", "from hetctl.cli.main import main", 1),
        ("hetctl.engine.a", "def f():\n    from hetctl.report import text", 1),
        ("hetctl.fit.a", "if TYPE_CHECKING:\n    from hetctl.resources.base import Json", 1),
        ("hetctl.report.a", "from hetctl.transport.base import Json", 1),
        ("hetctl.resources.a", "from hetctl.transport.base import Json", 0),
        ("hetctl.transport.a", "from hetctl.agent import frames", 1),
        ("hetctl.transport.a", "from hetctl.manifest import model", 1),
        ("hetctl.agent.a", "from hetctl.errors import HetctlError", 1),
        ("hetctl.agent.a", "import os, hetctl.agent.frames", 0),
        ("hetctl.errors", "from hetctl.manifest import model", 1),
        ("hetctl.__main__", "from hetctl.cli.main import main", 0),
    ],
)
def test_the_check_of_directions_sees_what_it_should(module: str, source: str, wrong: int) -> None:
    assert len(forbidden_imports(module, imports_of(ast.parse(source)))) == wrong


def test_the_check_of_cycles_sees_one() -> None:
    assert import_cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(import_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("comment", "fine"),
    [
        ("# noqa: S101 - why", True),
        ("# noqa: S101, S102 - why", True),
        ("# noqa: S101", False),
        ("# noqa", False),
        ("# type: ignore[arg-type] # why", True),
        ("# type: ignore[arg-type]", False),
        ("# type: ignore", False),
        ("# ruff: noqa", False),
        ("# mypy: ignore-errors", False),
        ("# a sentence about mypy: fine", True),
    ],
)
def test_the_check_of_exceptions_sees_what_it_should(comment: str, fine: bool) -> None:
    assert (unexplained(f"x = 1  {comment}\n") == []) is fine
