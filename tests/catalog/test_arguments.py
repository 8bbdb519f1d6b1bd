"""What may stand in `args`."""

from __future__ import annotations

import pytest

from hetctl.catalog.arguments import clash, refused_arguments
from hetctl.catalog.flags import Program, Setting, all_flags


@pytest.mark.parametrize(
    ("argument", "key"),
    [
        ("-ngl", "placements.layers"),
        ("--n-gpu-layers", "placements.layers"),
        ("--n_gpu_layers", "placements.layers"),
        ("-dev", "placements.devices"),
        ("--no-kv-unified", "placements.kvUnified"),
        ("-no-kvu", "placements.kvUnified"),
        ("--port", "placements.server.port"),
        ("-md", "placements.speculative.model"),
        ("--mlock", "placements.loadMode"),
        ("--ctx-size", "placements.context"),
        ("-fit", ""),
        ("-lv", ""),
    ],
)
def test_what_a_key_says_is_refused(argument: str, key: str) -> None:
    found = clash(argument)
    assert found is not None
    assert found.key == key
    assert found.fix


@pytest.mark.parametrize(
    "argument",
    ["--models-dir", "--models_dir", "-hf", "--api-key", "-fitt", "--cpu-moe", "-nkvo", "--log-file"],
)
def test_what_would_defeat_the_plan_is_refused(argument: str) -> None:
    found = clash(argument)
    assert found is not None
    assert found.why
    assert found.fix


@pytest.mark.parametrize(
    "argument",
    ["--grammar-file", "--temp", "0.7", "/etc/grammar.gbnf", "--jinja", "--metrics", "--no-warmup", "-c_x"],
)
def test_everything_else_passes(argument: str) -> None:
    assert clash(argument) is None


def test_what_hetctl_gives_itself_is_refused() -> None:
    assert clash("--metrics", {Setting.METRICS}) is not None
    assert clash("--no-jinja", {Setting.METRICS}) is None


def test_no_flag_is_both_refused_and_rendered() -> None:
    rendered = {name for program, flag in all_flags() if program is Program.SERVER for name in flag.spellings}
    assert [name for row in refused_arguments() for name in row.flags if name in rendered] == []
