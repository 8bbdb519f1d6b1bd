"""Programs, protocols and versions by build."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from hetctl.catalog.llama import (
    Version,
    executable_name,
    limits,
    newest_build,
    other_names,
    parse_build_info,
    parse_version,
    rpc_protocol,
    rpc_protocols,
    version_outputs,
)
from hetctl.errors import FlagUnavailable

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize(
    ("build", "name", "other"),
    [
        (9095, "rpc-server", "ggml-rpc-server"),
        (9823, "rpc-server", "ggml-rpc-server"),
        (9824, "ggml-rpc-server", "rpc-server"),
        (12000, "ggml-rpc-server", "rpc-server"),
    ],
)
def test_the_worker_was_renamed(build: int, name: str, other: str) -> None:
    assert executable_name("worker", build) == name
    assert other_names("worker", build) == (other,)


def test_other_programs_keep_their_names() -> None:
    names = {part: executable_name(part, 11434) for part in ("server", "bench", "fit")}
    assert names == {"server": "llama-server", "bench": "llama-bench", "fit": "llama-fit-params"}
    assert other_names("server", 11434) == ()
    with pytest.raises(FlagUnavailable, match="no oracle"):
        executable_name("oracle", 11434)


@pytest.mark.parametrize(
    ("build", "version"),
    [
        (9095, (4, 0, 0)),
        (9563, (4, 0, 0)),
        (9570, None),
        (9581, (4, 0, 1)),
        (10001, (4, 0, 2)),
        (10067, (4, 0, 3)),
        (10472, (5, 0, 0)),
        (10502, (5, 1, 0)),
        (10941, (6, 0, 0)),
        (10970, None),
        (11434, (7, 0, 0)),
        (11435, None),
    ],
)
def test_protocol_versions(build: int, version: tuple[int, int, int] | None) -> None:
    assert rpc_protocol(build) == version


def test_protocols_follow_one_another_without_overlap() -> None:
    rows = rpc_protocols()
    assert [row.version for row in rows] == sorted(row.version for row in rows)
    for earlier, later in pairwise(rows):
        assert earlier.builds.last is not None
        assert later.builds.first is not None
        assert earlier.builds.last < later.builds.first
        assert earlier.operations <= later.operations


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ((DATA / "version-b11434.txt").read_text(encoding="utf-8"), Version(11434, "0123456789")),
        ("version: 10121 (abc1234)\nbuilt with cc for x86_64", Version(10121, "abc1234")),
        ("version: 0 (unknown)\n", Version(0, "")),
        ("version: 0.6.0 (build 11500, commit unknown)\n", Version(11500, "")),
        ("some warning\nversion: 10121 (abc1234)\n", Version(10121, "abc1234")),
        ("version: what", None),
        ("", None),
    ],
)
def test_version_output(text: str, version: Version | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("row", version_outputs())
def test_every_version_form_reads_its_example(row: object) -> None:
    assert parse_version(row.example) is not None  # type: ignore[attr-defined] # rows as parameters


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("b11434-0123456789", Version(11434, "0123456789")),
        ("b0-unknown", Version(0, "")),
        ("11434", None),
        ("b11434-xyz", None),
    ],
)
def test_build_info(text: str, version: Version | None) -> None:
    assert parse_build_info(text) == version


def test_limits() -> None:
    assert limits()["devices"] == 16
    assert limits()["endpoints"] == 16
    assert newest_build() == 11434
