"""Command lines and units of placements as data: `cases/rendering/*.yaml`.

A case has the manifest's nodes and placements, what the nodes say where it matters, and for each process its
arguments, one option a line, and the lines of its unit that depend on the placement. The program's directory
is left out, since it is named by the digest of the build.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from hetctl.resources.base import Desired
from tests.fit import gguf_writer
from tests.resources.den import Den

CASES = sorted((Path(__file__).parent / "cases" / "rendering").glob("*.yaml"))

TELLING = (
    *("Device", "PrivateDevices", "SupplementaryGroups", "Environment", "IPAddress", "ExecStartPre=+"),
    *("LoadCredential", "InaccessiblePaths"),
)
"""How lines of a unit begin that depend on the placement."""


def read(path: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return found


def den(case: Mapping[str, Any], directory: Path) -> Den:
    recipe = dict(case.get("model", {}))
    return Den(
        directory,
        case["manifest"],
        version=case.get("version", "b11434"),
        model=gguf_writer.MODELS[recipe.pop("make", "llama")](**recipe),
        facts=case.get("facts", {}),
        sources=case.get("sources", {}),
    )


def command(process: Desired) -> list[str]:
    return [Path(process.spec["executable"]).name, *process.spec["arguments"]]


def unit(process: Desired) -> list[str]:
    return [line for line in process.spec["unit_text"].splitlines() if line.startswith(TELLING)]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_processes_are_started_as_the_case_says(path: Path, tmp_path: Path) -> None:
    case = read(path)
    wanted = den(case, tmp_path).wanted
    processes = {address: item for address, item in wanted.items() if item.kind in ("worker", "server")}
    assert set(processes) == set(case["processes"])
    for address, expected in case["processes"].items():
        process = processes[address]
        assert command(process) == shlex.split(expected["command"], comments=True)
        assert unit(process) == expected.get("unit", unit(process))


def test_a_unit_starts_what_the_spec_says(tmp_path: Path) -> None:
    wanted = den(read(CASES[0]), tmp_path).wanted
    server = wanted["server/chat"]
    (start,) = [line for line in server.spec["unit_text"].splitlines() if line.startswith("ExecStart=")]
    program = server.spec["executable"]
    assert shlex.split(start.removeprefix("ExecStart=")) == [program, *server.spec["arguments"]]
