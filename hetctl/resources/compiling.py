"""Compiling llama.cpp: which options, under which key, and the work itself on the node that compiles.

A build is named by everything that decides its content, so that a node never has to ask whether two builds
of the same name are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetctl.errors import OperationFailed, UsageError
from hetctl.facts.node import NodeFacts
from hetctl.resources.base import StepContext, digest
from hetctl.transport.base import Json, Session
from hetctl.transport.transfer import send_file
from hetctl.transport.workstation import Workstation

COMPILE_DEADLINE = 4 * 3600.0
"""Seconds. A CUDA build with many architectures takes hours on a small machine."""

BYTES_PER_JOB = 2 << 30
"""Memory a C++ compiler job of llama.cpp may need; fewer jobs run where there is less."""

PREREQUISITES = ("cmake", "g++")

FIXED_OPTIONS: Mapping[str, str] = {
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_INSTALL_RPATH": "$ORIGIN",
    "CMAKE_BUILD_WITH_INSTALL_RPATH": "ON",
    "BUILD_SHARED_LIBS": "ON",
    "GGML_NATIVE": "OFF",
    "GGML_RPC": "ON",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_BUILD_UI": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
    "LLAMA_OPENSSL": "OFF",
}
"""Always rendered. The web UI's default download is not pinned, so one key would give two binaries."""

CPU_OPTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "x86_64": {
        "GGML_SSE42": ("sse4_2",),
        "GGML_AVX": ("avx",),
        "GGML_AVX2": ("avx2",),
        "GGML_BMI2": ("bmi2",),
        "GGML_FMA": ("fma",),
        "GGML_F16C": ("f16c",),
        "GGML_AVX512": ("avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"),
        "GGML_AVX512_VBMI": ("avx512vbmi",),
        "GGML_AVX512_VNNI": ("avx512_vnni",),
        "GGML_AVX512_BF16": ("avx512_bf16",),
        "GGML_AVX_VNNI": ("avx_vnni",),
    },
}
"""llama.cpp's CPU options and the /proc/cpuinfo flags each needs (ggml/CMakeLists.txt and
ggml/src/ggml-cpu/CMakeLists.txt at b11434)."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What compiles.

    Arguments:
        node: Node that compiles, or `local` for the operator's machine.
        compiler: First line of `g++ --version`.
        glibc: C library that the result needs at least.
        architecture: As `uname -m` says.
    """

    node: str
    compiler: str
    glibc: str
    architecture: str


def cpu_options(architecture: str, flags: Sequence[frozenset[str]]) -> dict[str, str]:
    """Return the CPU options of a build that several nodes share.

    Arguments:
        architecture: As `uname -m` says.
        flags: The CPU flags of each node that will run it.

    Only what every node has is switched on: a build made for the better CPU ends with SIGILL on the other.
    """
    common = frozenset.intersection(*flags) if flags else frozenset()
    return {
        option: "ON" if set(needed) <= common else "OFF"
        for option, needed in CPU_OPTIONS.get(architecture, {}).items()
    }


def supports(options: Mapping[str, str], architecture: str, flags: frozenset[str]) -> bool:
    """Return whether a CPU with `flags` can run a build with these CPU options."""
    known = CPU_OPTIONS.get(architecture, {})
    return all(set(known.get(option, ())) <= flags for option, value in options.items() if value == "ON")


def build_number(version: str) -> int:
    """Return the number of a version such as `b11434`; 0 when it has none."""
    match = re.fullmatch(r"b?(\d+)", version)
    return int(match.group(1)) if match else 0


def build_key(identity: Mapping[str, Json], toolchain: Toolchain) -> str:
    """Return the name of a build on disk: 16 hex digits over all that decides its content."""
    return digest(
        {
            "identity": dict(identity),
            "compiler": toolchain.compiler,
            "glibc": toolchain.glibc,
            "architecture": toolchain.architecture,
        }
    )[:16]


def missing_prerequisites(facts: NodeFacts) -> list[str]:
    """Return the programs that a node lacks for compiling, by name."""
    missing = [name for name in PREREQUISITES if name not in facts.tools]
    if "ninja" not in facts.tools and "make" not in facts.tools:
        missing.append("ninja")
    return missing


def toolchain_of(node: str, facts: NodeFacts) -> Toolchain:
    """Return what would compile on a node."""
    compiler = facts.tools.get("g++")
    return Toolchain(
        node=node,
        compiler=compiler.version if compiler else "",
        glibc=facts.glibc,
        architecture=facts.architecture,
    )


def version_tuple(text: str) -> tuple[int, ...]:
    """Return a dotted version as numbers for comparison; empty for none."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def jobs_for(facts: NodeFacts) -> int:
    """Return how many compilers may run at once, by cores and free memory; at least 1."""
    return max(1, min(facts.cpu_cores or 1, facts.memory_available // BYTES_PER_JOB or 1))


@dataclass(frozen=True, slots=True)
class CompileOrder:
    """Everything the work needs.

    Arguments:
        name: Build name in the manifest.
        key: Its key.
        archive: Source archive on the operator's machine.
        archive_digest: Its sha256.
        source_root: Directory in it that holds llama.cpp.
        options: CMake options.
        targets: CMake targets.
        directory: Scratch directory on the compiling node.
        compiler_cache: Directory for ccache on the compiling node.
        jobs: Compilers at once.
        generator: CMake generator.
        description: Stored beside the result.
    """

    name: str
    key: str
    archive: Path
    archive_digest: str
    source_root: str
    options: Mapping[str, str]
    targets: Sequence[str]
    directory: str
    compiler_cache: str
    jobs: int
    generator: str
    description: Mapping[str, Json]


def compile_build(
    order: CompileOrder,
    session: Session,
    workstation: Workstation,
    context: StepContext,
    *,
    local: bool,
) -> None:
    """Compile a build and put its tar into the operator's cache.

    Arguments:
        order: What to compile.
        session: Of the node that compiles.
        workstation: Whose cache receives the result.
        context: Of the running step.
        local: True when the session's node is the operator's machine, so that the archive need not be sent.

    Raises:
        OperationFailed: Configuring or compiling failed; carries the last lines and the log's path.
    """
    archive = (
        str(order.archive.resolve()) if local else f"{order.directory}/source-{order.archive_digest[:16]}"
    )
    source, output = f"{order.directory}/source", f"{order.directory}/build"
    _make_room(order, session, local=local)
    there = session.call("observe", {"objects": [{"type": "file", "path": source}]})["states"][0]
    if not there.get("exists"):  # left by a run that was cut off: it goes on from there
        _unpack(order, session, context, archive=archive, source=source, local=local)
    options = [f"-D{name}={value}" for name, value in sorted(order.options.items())]
    context.progress("configuring")
    environment = {
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_BASEDIR": order.directory,
        "CCACHE_DIR": order.compiler_cache,
    }
    _run(
        session,
        ["cmake", "-S", source, "-B", output, "-G", order.generator, *options],
        environment,
        log=f"{order.directory}/configure.log",
        what=f"cmake refused to configure build {order.name}",
        stop=context.interrupted,
    )
    _run(
        session,
        ["cmake", "--build", output, "--parallel", str(order.jobs), "--target", *order.targets],
        environment,
        log=f"{order.directory}/compile.log",
        what=f"compiling build {order.name} failed",
        stop=context.interrupted,
        on_line=lambda line: _report_line(context, line),
    )
    _add_openmp(session, f"{output}/bin", order.directory)
    scratch = workstation.scratch(f"{order.key}.tar")
    with scratch.open("wb") as stream:

        def keep(block: bytes) -> None:
            stream.write(block)

        tree = {"path": f"{output}/bin"}
        session.call("get_tree", tree, deadline=1800, download=keep, stop=context.interrupted)
    workstation.keep_build(order.key, scratch, order.description)
    session.call("remove", {"paths": [order.directory], "empty_directories": []}, deadline=600)


def _make_room(order: CompileOrder, session: Session, *, local: bool) -> None:
    """Make the directories: an agent writes down what it makes, which takes root and is for nodes."""
    places = (order.directory, order.compiler_cache)
    if local:
        for place in places:
            Path(place).mkdir(parents=True, exist_ok=True)
    else:
        session.call("make_directories", {"paths": [{"path": path, "mode": 0o755} for path in places]})


def _unpack(
    order: CompileOrder, session: Session, context: StepContext, *, archive: str, source: str, local: bool
) -> None:
    """Put the source in place; it appears as a whole or not at all."""
    if not local:
        send_file(
            session,
            order.archive,
            archive,
            sha256=order.archive_digest,
            deadline=COMPILE_DEADLINE,
            progress=lambda done, total: context.progress(
                f"sending {order.archive.name}", done=done, total=total, unit="bytes"
            ),
            stop=context.interrupted,
        )
    context.progress(f"unpacking {order.archive.name}")
    session.call(
        "unpack",
        {"archive": archive, "path": source, "strip": 0, "subdirectory": order.source_root},
        deadline=600,
        stop=context.interrupted,
    )


def _run(
    session: Session,
    argv: list[str],
    environment: Mapping[str, str],
    *,
    log: str,
    what: str,
    stop: Callable[[], bool],
    on_line: Callable[[str], None] | None = None,
) -> None:
    result = session.call(
        "run",
        {
            "argv": argv,
            "env": dict(environment),
            "log": log,
            "events": on_line is not None,
        },
        deadline=COMPILE_DEADLINE,
        on_event=(lambda event: on_line(str(event.get("line", "")))) if on_line else None,
        stop=stop,
    )
    if result["exit"] == 0:
        return
    lines = f"{result.get('stdout', '')}\n{result.get('stderr', '')}".strip().splitlines()
    errors = [line for line in lines if re.search(r"error|FAILED|fatal", line)]
    shown = list(dict.fromkeys([*errors[-10:], *lines[-10:]]))
    raise OperationFailed(
        what,
        where=session.node,
        why="\n".join(shown),
        fix=f"the whole log is {log} on {session.node}",
    )


def _report_line(context: StepContext, line: str) -> None:
    """Turn ninja's `[12/228]` or make's `[ 12%]` into progress."""
    if match := re.match(r"\[(\d+)/(\d+)\]", line):
        context.progress("compiling", done=int(match.group(1)), total=int(match.group(2)), unit="files")
    elif match := re.match(r"\[\s*(\d+)%\]", line):
        context.progress("compiling", done=int(match.group(1)), total=100, unit="%")


def rpc_protocol(header: str) -> str:
    """Return the RPC protocol a source speaks as `major.minor.patch`.

    Arguments:
        header: Text of ggml/include/ggml-rpc.h.

    Raises:
        UsageError: The header does not say it.
    """
    parts = [re.search(rf"RPC_PROTO_{name}_VERSION\s+(\d+)", header) for name in ("MAJOR", "MINOR", "PATCH")]
    if not all(parts):
        raise UsageError(
            "the source does not say which RPC protocol it speaks",
            where="ggml/include/ggml-rpc.h",
            fix="use the source of build 9095 or later",
        )
    return ".".join(part.group(1) for part in parts if part)


def _add_openmp(session: Session, binaries: str, directory: str) -> None:
    """Put the compiler's OpenMP runtime beside the binaries: small nodes often lack the package."""
    found = session.call(
        "run", {"argv": ["g++", "-print-file-name=libgomp.so.1"], "env": {}, "cwd": directory}
    )
    path = str(found["stdout"]).strip()
    if found["exit"] == 0 and path.startswith("/"):
        copied = session.call("run", {"argv": ["cp", "-L", path, f"{binaries}/libgomp.so.1"], "env": {}})
        if copied["exit"] != 0:
            raise OperationFailed(
                "the OpenMP runtime could not be copied", where=session.node, why=str(copied["stderr"])
            )
