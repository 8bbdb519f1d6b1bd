"""Every row of every data file: complete, dated, sourced, and reachable by a query."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from hetctl.catalog import arguments, flags, formats, issues, llama, logs
from hetctl.catalog.table import DATA, Builds, builds_of, read_rows

FILES = sorted(path.name for path in DATA.iterdir())
QUERIES: dict[str, Any] = {
    "ggml_types.json": formats.number_formats,
    "llama_adjustments.json": issues.all_adjustments,
    "llama_architectures.json": formats.architectures,
    "llama_executables.json": llama.executables,
    "llama_failures.json": logs.known_failures,
    "llama_flags.json": flags.all_flags,
    "llama_known_issues.json": issues.all_issues,
    "llama_limits.json": llama.limits,
    "llama_log_levels.json": logs.log_levels,
    "llama_log_lines.json": logs.log_lines,
    "llama_refused_arguments.json": arguments.refused_arguments,
    "llama_rpc_protocols.json": llama.rpc_protocols,
    "llama_tensors.json": formats.tensor_places,
    "llama_version_outputs.json": llama.version_outputs,
}


@pytest.mark.parametrize("file", FILES)
def test_every_row_has_a_source_and_a_day(file: str) -> None:
    for row in read_rows(file):
        assert row["source"].strip(), row
        assert date(2026, 1, 1) <= date.fromisoformat(row["checked"]), row


@pytest.mark.parametrize("file", FILES)
def test_every_row_is_read(file: str) -> None:
    assert len(QUERIES[file]()) == len(read_rows(file))


@pytest.mark.parametrize("file", FILES)
def test_one_row_a_line(file: str) -> None:
    lines = (DATA / file).read_text(encoding="utf-8").splitlines()
    assert [lines[0], lines[-1]] == ["[", "]"]
    assert [json.loads(line.removesuffix(",")) for line in lines[1:-1]] == read_rows(file)


@pytest.mark.parametrize("file", FILES)
def test_ranges_are_not_empty_and_known(file: str) -> None:
    for row in read_rows(file):
        if "first" not in row:
            continue
        builds = builds_of(row)
        first, last = builds.first or llama.oldest_build(), builds.last or llama.newest_build()
        assert first <= last, row
        assert llama.oldest_build() <= first, row
        assert last in builds, row


@pytest.mark.parametrize(
    ("builds", "inside", "outside", "words"),
    [
        (Builds(), [1, 99999], [], "every build"),
        (Builds(5), [5, 6], [4], "from b5"),
        (Builds(None, 5), [1, 5], [6], "up to b5"),
        (Builds(5, 7), [5, 7], [4, 8], "b5 to b7"),
    ],
)
def test_ranges_include_their_ends(builds: Builds, inside: list[int], outside: list[int], words: str) -> None:
    assert all(build in builds for build in inside)
    assert not any(build in builds for build in outside)
    assert str(builds) == words
