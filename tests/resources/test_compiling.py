from __future__ import annotations

import shutil
import tarfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetctl.errors import Interrupted, OperationFailed, UsageError
from hetctl.resources.base import StepContext
from hetctl.resources.compiling import (
    CPU_OPTIONS,
    CompileOrder,
    Toolchain,
    build_key,
    build_number,
    compile_build,
    cpu_options,
    rpc_protocol,
    supports,
    version_tuple,
)
from hetctl.transport.local import LocalTransport
from hetctl.transport.session import AgentSession
from hetctl.transport.workstation import Workstation, archived_files

NEEDED = sorted({flag for flags in CPU_OPTIONS["x86_64"].values() for flag in flags})
flag_sets = st.lists(st.frozensets(st.sampled_from(NEEDED)), min_size=1, max_size=4)
GCC = Toolchain(node="local", compiler="g++ 12.2.0", glibc="2.36", architecture="x86_64")


@given(flag_sets)
def test_a_shared_build_runs_on_every_node_and_uses_all_they_have_in_common(
    flags: list[frozenset[str]],
) -> None:
    options = cpu_options("x86_64", flags)
    assert all(supports(options, "x86_64", own) for own in flags)
    common = frozenset.intersection(*flags)
    for option, needed in CPU_OPTIONS["x86_64"].items():
        assert (options[option] == "ON") == (set(needed) <= common)


def test_an_unknown_architecture_gets_no_options() -> None:
    assert cpu_options("riscv64", [frozenset({"avx2"})]) == {}


@pytest.mark.parametrize(
    ("version", "number"), [("b11434", 11434), ("11434", 11434), ("v1.2.3", 0), ("master", 0)]
)
def test_build_number(version: str, number: int) -> None:
    assert build_number(version) == number


def test_the_key_changes_with_everything_that_decides_the_content() -> None:
    identity = {"version": "b11434", "cmake": {"GGML_NATIVE": "OFF"}, "cpu": {"GGML_AVX2": "ON"}}
    key = build_key(identity, GCC)
    assert key == build_key(dict(reversed(identity.items())), GCC)
    others = [
        build_key({**identity, "version": "b11435"}, GCC),
        build_key({**identity, "cpu": {"GGML_AVX2": "OFF"}}, GCC),
        build_key(identity, replace(GCC, compiler="g++ 13.1.0")),
        build_key(identity, replace(GCC, glibc="2.39")),
        build_key(identity, replace(GCC, architecture="aarch64")),
    ]
    assert len({key, *others}) == len(others) + 1
    # where it is compiled is no part of what comes out
    assert key == build_key(identity, replace(GCC, node="atlas"))


def test_the_protocol_is_read_from_the_source() -> None:
    header = "#define RPC_PROTO_MAJOR_VERSION    7\n#define RPC_PROTO_MINOR_VERSION 0\n"
    assert rpc_protocol(header + "#define RPC_PROTO_PATCH_VERSION    2\n") == "7.0.2"
    with pytest.raises(UsageError):
        rpc_protocol(header)


def test_versions_compare_as_numbers() -> None:
    assert version_tuple("2.36") > version_tuple("2.4")
    assert version_tuple("") == ()


# -- real cmake, a project that stands for llama.cpp --------------------------------------------------------

PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(stand_in C)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_executable(llama-server main.c)
add_custom_target(slow COMMAND ${CMAKE_COMMAND} -E sleep 240)
"""


class Noted(AgentSession):
    """A session that notes what is asked of it."""

    asked: tuple[str, ...] = ()

    def call(self, operation: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        self.asked += (operation,)
        return super().call(operation, *arguments, **options)


class Here:
    """A machine that compiles, and a person who may want to stop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.asked: tuple[str, ...] = ()
        self.stop_at = ""
        self.workstation = Workstation(folder / "cache")
        source = folder / "llama"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT)
        (source / "main.c").write_text("int main(void) { return 0; }\n")
        with tarfile.open(folder / "llama.tar", "w") as archive:
            archive.add(source, "llama")

    def compile(self, *targets: str) -> None:
        order = CompileOrder(
            name="main",
            key="k1",
            archive=self.folder / "llama.tar",
            archive_digest=self.workstation.digest(self.folder / "llama.tar"),
            source_root="llama",
            options={},
            targets=targets,
            directory=str(self.folder / "work"),
            compiler_cache=str(self.folder / "ccache"),
            jobs=1,
            generator="Ninja" if shutil.which("ninja") else "Unix Makefiles",
            description={"identity": "k1"},
        )
        session = Noted("local", LocalTransport(), read_only=False, become_root=False)
        session.open()
        try:
            context = StepContext({}, self._say, lambda: bool(self.stop_at) and self.stop_at in self.said)
            compile_build(order, session, self.workstation, context, local=True)
        finally:
            session.close()
            self.asked = session.asked

    def _say(self, message: str, **_: object) -> None:
        self.said.append(message)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def test_what_was_compiled_lies_in_the_cache(here: Here) -> None:
    here.compile("llama-server")
    assert here.workstation.built("k1") == {"identity": "k1"}
    assert "llama-server" in archived_files(here.workstation.build_archive("k1"))
    assert not (here.folder / "work").exists()


def test_compiling_here_writes_nothing_down_where_only_root_may(here: Here) -> None:
    here.compile("llama-server")
    assert not {"make_directories", "put_file"} & set(here.asked)


def test_a_compilation_that_is_not_wanted_any_more_ends_and_is_gone_on_with(here: Here) -> None:
    here.stop_at = "configuring"
    began = time.monotonic()
    with pytest.raises(Interrupted):
        here.compile("slow")
    assert time.monotonic() - began < 10
    assert here.workstation.built("k1") is None
    assert (here.folder / "work" / "source").is_dir()
    here.stop_at, here.said = "", []
    here.compile("llama-server")
    assert not any(message.startswith("unpacking") for message in here.said)
    assert here.workstation.built("k1") is not None


def test_a_compilation_that_fails_tells_the_compiler_s_words_and_where_the_log_is(here: Here) -> None:
    (here.folder / "llama" / "main.c").write_text("int main(void) { return nothing; }\n")
    with tarfile.open(here.folder / "llama.tar", "w") as archive:
        archive.add(here.folder / "llama", "llama")
    with pytest.raises(OperationFailed) as raised:
        here.compile("llama-server")
    assert "nothing" in raised.value.why
    assert str(here.folder / "work" / "compile.log") in raised.value.fix
