"""Rendering of settings, against the flags that real builds list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from hetctl.catalog.flags import Flag, Program, Setting, Value, all_flags, flags_for
from hetctl.catalog.llama import newest_build, oldest_build
from hetctl.errors import ExitCode, FlagUnavailable
from hetctl.manifest.cluster import Cluster

DATA = Path(__file__).parent / "data"
LISTED = {int(path.stem.rpartition("-b")[2]): path for path in DATA.glob("llama-server-b*.txt")}
WORKER_FLAGS = {
    "-h",
    "--help",
    "-t",
    "--threads",
    "-d",
    "--device",
    "-H",
    "--host",
    "-p",
    "--port",
    "-c",
    "--cache",
}
"""`ggml-rpc-server --help` at b11434; the list in tools/rpc/rpc-server.cpp is the same at b9095."""

EXAMPLES: dict[Setting, Value] = {
    Setting.HOST: "127.0.0.1",
    Setting.FLASH_ATTENTION: "on",
    Setting.FIT: "off",
    Setting.LOG_COLORS: "off",
    Setting.SPLIT_MODE: "layer",
    Setting.CACHE_TYPE_K: "q8_0",
    Setting.CACHE_TYPE_V: "q8_0",
    Setting.LOAD_MODE: "mmap",
    Setting.POOLING: "mean",
    Setting.SPECULATIVE_TYPE: "ngram",
}


@pytest.mark.parametrize("build", sorted(LISTED))
@pytest.mark.parametrize("on", [True, False])
def test_every_rendered_flag_is_listed_by_the_build(build: int, *, on: bool) -> None:
    listed = LISTED[build].read_text(encoding="utf-8").split()
    flags = flags_for(build)
    for setting, flag in flags.flags.items():
        value = on if flag.form == "switch" else EXAMPLES.get(setting, 1)
        values: list[Value] = [value, *flag.words] if flag.form == "words" else [value]
        for each in values:
            rendered = flags.arguments(setting, each)
            assert [word for word in rendered if word.startswith("-") and word not in listed] == []


def test_every_spelling_of_the_newest_build_is_listed() -> None:
    listed = LISTED[newest_build()].read_text(encoding="utf-8").split()
    assert [name for name in flags_for(newest_build()).spellings() if name not in listed] == []


@pytest.mark.parametrize("build", [oldest_build(), newest_build()])
def test_worker_flags_are_listed(build: int) -> None:
    assert set(flags_for(build, Program.WORKER).spellings()) <= WORKER_FLAGS


def test_the_command_line_that_was_tried() -> None:
    rendered = flags_for(11434).render(
        [
            (Setting.DEVICES, ["RPC0", "RPC1"]),
            (Setting.RPC, ["127.0.0.1:20052", "127.0.0.1:20053"]),
            (Setting.MODEL, "/m.gguf"),
            (Setting.ALIAS, ["tiny"]),
            (Setting.CONTEXT, 8192),
            (Setting.SLOTS, 2),
            (Setting.KV_UNIFIED, False),
            (Setting.GPU_LAYERS, 19),
            (Setting.SPLIT_MODE, "layer"),
            (Setting.TENSOR_SPLIT, [10, 9]),
            (Setting.FIT, "off"),
            (Setting.LOAD_MODE, "auto"),
            (Setting.WEB_INTERFACE, False),
            (Setting.METRICS, True),
            (Setting.EMBEDDINGS, False),
        ]
    )
    assert " ".join(rendered) == (
        "--rpc 127.0.0.1:20052,127.0.0.1:20053 --device RPC0,RPC1 --model /m.gguf --alias tiny -c 8192 -np 2"
        " --no-kv-unified -ngl 19 -sm layer -ts 10,9 -fit off -lm auto --no-ui --metrics"
    )


def test_a_worker() -> None:
    rendered = flags_for(11434, Program.WORKER).render(
        [
            (Setting.HOST, "10.0.0.7"),
            (Setting.PORT, 20052),
            (Setting.DEVICES, ["CUDA0", "CUDA1"]),
            (Setting.THREADS, 4),
            (Setting.TENSOR_CACHE, True),
        ]
    )
    assert rendered == ["-H", "10.0.0.7", "-p", "20052", "-d", "CUDA0,CUDA1", "-t", "4", "-c"]


@pytest.mark.parametrize(
    ("build", "mode", "expected"),
    [
        (9095, "auto", ["--mmap"]),
        (10120, "mlock", ["--no-mmap", "--mlock"]),
        (10120, "dio", ["--direct-io"]),
        (10121, "auto", ["-lm", "mmap"]),
        (10440, "mmap+mlock", ["-lm", "mlock"]),
        (10441, "auto", ["-lm", "auto"]),
        (11434, "mmap+mlock", ["-lm", "mmap+mlock"]),
        (12000, "mlock", ["-lm", "mlock"]),
    ],
)
def test_load_mode_is_written_as_the_build_wants_it(build: int, mode: str, expected: list[str]) -> None:
    assert flags_for(build).arguments(Setting.LOAD_MODE, mode) == expected


@pytest.mark.parametrize(
    ("build", "setting", "value", "why"),
    [
        (10300, Setting.LOAD_MODE, "mlock", "it takes auto"),
        (10878, Setting.HOST, ["10.0.0.1", "10.0.0.2"], "1 at most"),
        (10500, Setting.PROJECTOR_DEVICE, "CUDA0", "no flag"),
        (9095, Setting.SPECULATIVE_TYPE, "mtp", "it takes ngram"),
        (11434, Setting.CACHE_TYPE_K, "q9_9", "it takes f32"),
        (11434, Setting.OVERRIDES, ["blk.(1,2)=CPU"], "separated by commas"),
        (11434, Setting.ALIAS, [""], "separated by commas"),
        (11434, Setting.TENSOR_CACHE, True, "no flag"),
    ],
)
def test_what_a_build_cannot_say_is_refused(build: int, setting: Setting, value: Value, why: str) -> None:
    with pytest.raises(FlagUnavailable, match=f"b{build}") as failure:
        flags_for(build).render([(setting, value)])
    assert why in failure.value.why
    assert failure.value.fix
    assert failure.value.exit_code is ExitCode.MANIFEST_INVALID


def test_a_missing_flag_names_the_builds_that_have_it() -> None:
    with pytest.raises(FlagUnavailable) as failure:
        flags_for(10500).arguments(Setting.PROJECTOR_DEVICE, "CUDA0")
    assert "from b10630" in failure.value.fix


def test_several_addresses_where_the_build_takes_them() -> None:
    assert flags_for(11434).arguments(Setting.HOST, ["10.0.0.1", "::1"]) == ["--host", "10.0.0.1,::1"]


def test_builds_older_than_the_catalogue_are_refused() -> None:
    with pytest.raises(FlagUnavailable, match=r"b9000.*older"):
        flags_for(9000)


@pytest.mark.parametrize("build", [oldest_build(), 9246, 9823, 10120, 10441, 11433, newest_build(), 20000])
def test_no_build_has_two_rows_for_a_setting(build: int) -> None:
    for program in Program:
        settings = [flag.setting for owner, flag in all_flags() if owner is program and build in flag.builds]
        assert len(settings) == len(set(settings))


def test_every_setting_has_a_flag() -> None:
    assert {flag.setting for _, flag in all_flags()} == set(Setting)


@pytest.mark.parametrize("flag", [flag for _, flag in all_flags()], ids=lambda flag: flag.spelling)
def test_every_flag_has_a_key_of_the_manifest(flag: Flag) -> None:
    if flag.key in ("fixed", "args"):
        return
    node: Any = Cluster
    for word in flag.key.split("."):
        fields = {field.alias or name: field.annotation for name, field in models_of(node)}
        assert word in fields, flag.key
        node = fields[word]


def models_of(annotation: Any) -> list[tuple[str, Any]]:
    """Return the fields of every model inside a type such as `dict[Name, Placement] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return list(annotation.model_fields.items())
    arguments = getattr(annotation, "__args__", ())
    return [field for argument in arguments for field in models_of(argument)]
