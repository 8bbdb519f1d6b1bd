from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetctl.errors import UsageError
from hetctl.resources.compiling import (
    CPU_OPTIONS,
    Toolchain,
    build_key,
    build_number,
    cpu_options,
    rpc_protocol,
    supports,
    version_tuple,
)

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
