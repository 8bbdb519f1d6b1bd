"""Which builds the placements need, and what each of them is made of.

The CPU options and the toolchain of a build are decided once and then kept: the nodes remember them, so
that two people with the same manifest see the same plan whatever their own machines are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hetctl.catalog.llama import executable_name
from hetctl.facts.node import NodeFacts
from hetctl.manifest.builds import Build
from hetctl.resources import layout
from hetctl.resources.base import Mark
from hetctl.resources.build import PARTS
from hetctl.resources.compiling import (
    FIXED_OPTIONS,
    Toolchain,
    build_key,
    build_number,
    cpu_options,
    missing_prerequisites,
    supports,
    toolchain_of,
    version_tuple,
)
from hetctl.rules.finding import Finding, Severity
from hetctl.transport.base import Json

LOCAL = "local"
"""How the manifest names the operator's machine in `builds.X.on`."""


@dataclass(frozen=True, slots=True)
class BuildDecision:
    """What a build is.

    Arguments:
        name: In the manifest.
        identity: All that decides its content but the toolchain.
        toolchain: What compiled it or will.
        key: Its name on disk.
        number: Build number of llama.cpp.
        commit: What the binaries report.
        options: CMake options.
        findings: What speaks against it.
    """

    name: str
    identity: Mapping[str, Json]
    toolchain: Toolchain
    key: str
    number: int
    commit: str
    options: Mapping[str, str]
    findings: tuple[Finding, ...] = ()


def decide_build(
    name: str,
    build: Build,
    *,
    archive_digest: str,
    users: Mapping[str, NodeFacts],
    recorded: Sequence[Mark],
    operator: Callable[[], NodeFacts],
) -> BuildDecision:
    """Return what a build is.

    Arguments:
        name: In the manifest.
        build: As declared.
        archive_digest: sha256 of its source archive.
        users: Facts of the nodes that will run it and could be read, in manifest order.
        recorded: Marks of this build on any node.
        operator: Reads the facts of the operator's machine; called only when that one has to compile.
    """
    number = build_number(build.version)
    commit = build.source[0].commit or archive_digest[:10]
    base: dict[str, Json] = {
        "version": build.version,
        "archive": archive_digest,
        "commit": commit,
        "cmake": {**FIXED_OPTIONS, **dict(build.cmake)},
        "backends": ["cpu"],
        "binaries": [executable_name(part, number) for part in PARTS],
    }
    architectures = {facts.architecture for facts in users.values()}
    kept = _kept(base, users, recorded)
    if kept is not None:
        identity, toolchain = kept
    else:
        architecture = next(iter(sorted(architectures)), "x86_64")
        flags = [facts.cpu_flags for facts in users.values() if facts.architecture == architecture]
        identity = {**base, "cpu": cpu_options(architecture, flags)}
        toolchain = _choose(build, users, operator)
    options = {
        **identity["cpu"],
        "LLAMA_BUILD_NUMBER": str(number),
        "LLAMA_BUILD_COMMIT": commit,
        **identity["cmake"],
    }
    return BuildDecision(
        name=name,
        identity=identity,
        toolchain=toolchain,
        key=build_key(identity, toolchain),
        number=number,
        commit=commit,
        options=options,
        findings=tuple(_findings(name, toolchain, users)),
    )


def _kept(
    base: Mapping[str, Json], users: Mapping[str, NodeFacts], recorded: Sequence[Mark]
) -> tuple[dict[str, Json], Toolchain] | None:
    """Return what the nodes remember, when it is still what is declared and every node can run it."""
    for mark in sorted(recorded, key=lambda mark: (-mark.generation, mark.node)):
        identity = dict(mark.spec["identity"])
        toolchain = Toolchain(**mark.spec["toolchain"])
        same = {key: value for key, value in identity.items() if key != "cpu"} == dict(base)
        if same and all(
            facts.architecture == toolchain.architecture
            and supports(identity["cpu"], facts.architecture, facts.cpu_flags)
            for facts in users.values()
        ):
            return identity, toolchain
    return None


def _choose(build: Build, users: Mapping[str, NodeFacts], operator: Callable[[], NodeFacts]) -> Toolchain:
    if build.on == LOCAL:
        return toolchain_of(LOCAL, operator())
    candidates = [build.on] if build.on else list(users)
    for node in candidates:
        if node in users and not missing_prerequisites(users[node]):
            return toolchain_of(node, users[node])
    if build.on is None:
        facts = operator()
        if not missing_prerequisites(facts):
            return toolchain_of(LOCAL, facts)
    node = candidates[0] if candidates else LOCAL
    return Toolchain(node=node, compiler="", glibc="", architecture="")


def _findings(name: str, toolchain: Toolchain, users: Mapping[str, NodeFacts]) -> list[Finding]:
    found = []
    if not toolchain.compiler:
        lacking = (
            missing_prerequisites(users[toolchain.node]) if toolchain.node in users else ["cmake", "g++"]
        )
        found.append(
            Finding(
                code="TOOLCHAIN_MISSING",
                severity=Severity.ERROR,
                where=f"build/{name}",
                what="no node that uses the build can compile it",
                why=f"{toolchain.node} lacks {', '.join(lacking)}"
                if lacking
                else f"{toolchain.node} was not read",
                fix="apt install cmake g++ ninja-build there, or compile elsewhere: `on: local`",
            )
        )
        return found
    for node, facts in users.items():
        if facts.architecture != toolchain.architecture:
            found.append(
                Finding(
                    code="BUILD_ARCHITECTURE",
                    severity=Severity.ERROR,
                    where=node,
                    what=f"build {name} is made for {toolchain.architecture}, {node} is {facts.architecture}",
                    fix="declare a build of its own for that machine and a placement that does not mix them",
                )
            )
        elif facts.glibc and version_tuple(facts.glibc) < version_tuple(toolchain.glibc):
            found.append(
                Finding(
                    code="GLIBC_TOO_OLD",
                    severity=Severity.ERROR,
                    where=node,
                    what=f"build {name} needs C library {toolchain.glibc}, {node} has {facts.glibc}",
                    why=f"it is compiled on {toolchain.node}",
                    fix=f"compile on the machine with the oldest C library: `on: {node}`",
                )
            )
    return found


def build_summary(version: str, node: str) -> str:
    """Return a phrase for people: what a build is and which machine compiled it."""
    return f"{version}, cpu, compiled on {node}"


def build_spec(decision: BuildDecision, paths: layout.NodePaths) -> dict[str, Json]:
    """Return the spec of a build on one node."""
    toolchain = decision.toolchain
    return {
        "build": decision.name,
        "key": decision.key,
        "path": layout.build_directory(paths, decision.key),
        "number": decision.number,
        "commit": decision.commit,
        "identity": dict(decision.identity),
        "toolchain": {
            "node": toolchain.node,
            "compiler": toolchain.compiler,
            "glibc": toolchain.glibc,
            "architecture": toolchain.architecture,
        },
        "options": dict(decision.options),
        "binaries": list(decision.identity["binaries"]),
        "server_binary": executable_name("server", decision.number),
        "summary": build_summary(decision.identity["version"], toolchain.node),
    }
