"""Programs, protocol versions, version texts and limits of llama.cpp by build."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from hetctl.catalog.table import Builds, Origin, builds_of, origin_of, read_rows
from hetctl.errors import FlagUnavailable

Triple = tuple[int, int, int]
"""Major, minor and patch of the RPC protocol."""


@dataclass(frozen=True, slots=True)
class Executable:
    """The file name of one part of llama.cpp: `server`, `worker`, `bench` or `fit`."""

    part: str
    name: str
    builds: Builds
    origin: Origin


@dataclass(frozen=True, slots=True)
class RpcProtocol:
    """The protocol that head and workers of these builds speak.

    Arguments:
        version: What HELLO answers.
        operations: How many operations a graph may name. llama.cpp renumbers them when one is added, raises
            only the patch number then, and accepts any patch number: so all three must be equal.
        change: What is new in it.
    """

    version: Triple
    operations: int
    change: str
    builds: Builds
    origin: Origin


@dataclass(frozen=True, slots=True)
class VersionOutput:
    """The first line that `llama-server --version` writes to standard error."""

    pattern: re.Pattern[str]
    example: str
    builds: Builds
    origin: Origin


@dataclass(frozen=True, slots=True)
class Version:
    """What a binary says about itself.

    Arguments:
        build: Build number; 0 when it was compiled without one.
        commit: Abbreviated commit; empty when it does not know.
    """

    build: int
    commit: str


@cache
def executables() -> tuple[Executable, ...]:
    """Return every row about executables."""
    return tuple(
        Executable(row["part"], row["name"], builds_of(row), origin_of(row))
        for row in read_rows("llama_executables.json")
    )


@cache
def rpc_protocols() -> tuple[RpcProtocol, ...]:
    """Return every row about the RPC protocol."""
    return tuple(
        RpcProtocol(_triple(row["version"]), row["operations"], row["change"], builds_of(row), origin_of(row))
        for row in read_rows("llama_rpc_protocols.json")
    )


@cache
def version_outputs() -> tuple[VersionOutput, ...]:
    """Return every row about the text of `--version`."""
    return tuple(
        VersionOutput(
            re.compile(row["pattern"], re.MULTILINE), row["example"], builds_of(row), origin_of(row)
        )
        for row in read_rows("llama_version_outputs.json")
    )


@cache
def limits() -> dict[str, int]:
    """Return the fixed limits by name: most devices and endpoints, oldest and newest build that was read."""
    return {row["limit"]: row["value"] for row in read_rows("llama_limits.json")}


def oldest_build() -> int:
    """Return the oldest build the catalogue was made from."""
    return limits()["oldest build read"]


def newest_build() -> int:
    """Return the newest build the catalogue was made from; what holds there is taken to hold later."""
    return limits()["newest build read"]


def executable_name(part: str, build: int) -> str:
    """Return the file name of `part` (`server`, `worker`, `bench` or `fit`) at `build`.

    Raises:
        FlagUnavailable: No build like this is known to have it.
    """
    for row in executables():
        if row.part == part and build in row.builds:
            return row.name
    raise FlagUnavailable(f"b{build} has no {part}", where=f"b{build}", why="no such program is known")


def other_names(part: str, build: int) -> tuple[str, ...]:
    """Return names that `part` has in other builds.

    A file of such a name beside this build's is a leftover of another one, and starting it is the usual way
    to get two protocol versions (llama.cpp issue 26392).
    """
    name = executable_name(part, build)
    return tuple(row.name for row in executables() if row.part == part and row.name != name)


def rpc_protocol(build: int) -> Triple | None:
    """Return the protocol version that `build` speaks; None when no build near enough was read."""
    return next((row.version for row in rpc_protocols() if build in row.builds), None)


def parse_version(text: str) -> Version | None:
    """Return what `--version` printed; None when the text has none of the known forms.

    Every known form is tried, whatever build is expected: the point of asking is to find a wrong binary.
    """
    for row in version_outputs():
        if found := row.pattern.search(text):
            commit = found["commit"]
            return Version(int(found["build"]), "" if commit == "unknown" else commit)
    return None


def parse_build_info(text: str) -> Version | None:
    """Return what `build_info` of `/props` and `system_fingerprint` of an answer say: `b11434-0123456789`."""
    if found := re.fullmatch(r"b(\d+)-([0-9a-f]+|unknown)", text):
        return Version(int(found[1]), "" if found[2] == "unknown" else found[2])
    return None


def _triple(numbers: list[int]) -> Triple:
    major, minor, patch = numbers
    return major, minor, patch
