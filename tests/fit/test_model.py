"""From headers to a model: defaults, per-layer values, split files."""

from __future__ import annotations

import io

import pytest

from hetctl.errors import ModelUnreadable
from hetctl.fit.gguf import Header, read_header
from hetctl.fit.memory import windowed_layers
from hetctl.fit.model import describe, split_files
from tests.fit import gguf_writer
from tests.fit.gguf_writer import Pair


def part(number: int, count: int, *, first: bool = True) -> Header:
    metadata, tensors = gguf_writer.transformer(layers=2)
    split: dict[str, Pair] = {"split.no": ("u16", number), "split.count": ("u16", count)}
    half = tensors[: len(tensors) // 2] if number == 0 else tensors[len(tensors) // 2 :]
    start, _ = gguf_writer.header({**(metadata if first else {}), **split}, half)
    return read_header(io.BytesIO(start), name=f"m-{number + 1:05d}-of-{count:05d}.gguf")


def test_what_a_planner_needs_is_there() -> None:
    model = gguf_writer.described(*gguf_writer.transformer(layers=3, kv_heads=[1, 2, 4]))
    assert (model.architecture, model.block_count, model.context_length) == ("llama", 3, 131072)
    assert (model.embedding_length, model.vocabulary, model.heads) == (512, 1024, (8, 8, 8))
    assert (model.kv_heads, model.key_length, model.value_length) == ((1, 2, 4), 64, 64)
    assert (model.window, model.experts, model.compressed, model.recurrent) == (0, 0, False, False)
    assert sum(model.layer_bytes) < model.tensor_bytes
    assert model.layer_bytes[2] > model.layer_bytes[0]
    assert model.largest_tensor == 512 * 1024 * 34 // 32


def test_kv_heads_default_to_heads() -> None:
    metadata, tensors = gguf_writer.transformer()
    del metadata["llama.attention.head_count_kv"]
    assert gguf_writer.described(metadata, tensors).kv_heads == (8, 8, 8, 8)


def test_windows_as_the_file_says_go_before_the_architecture() -> None:
    listed: dict[str, Pair] = {"gemma2.attention.sliding_window_pattern": ("bool", [True, True, False, True])}
    counted: dict[str, Pair] = {"gemma2.attention.sliding_window_pattern": ("u32", 3)}
    for extra, expected in (
        ({}, (True, False, True, False)),
        (listed, (True, True, False, True)),
        (counted, (True, True, False, True)),
    ):
        metadata, tensors = gguf_writer.gemma2(4)
        assert windowed_layers(gguf_writer.described({**metadata, **extra}, tensors)) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [("llama.block_count", None), ("llama.block_count", 0), ("llama.block_count", 100_000)],
)
def test_a_model_without_sensible_layers_is_refused(key: str, value: int | None) -> None:
    metadata, tensors = gguf_writer.transformer()
    del metadata[key]
    if value is not None:
        metadata[key] = ("u32", value)
    with pytest.raises(ModelUnreadable, match="layers"):
        gguf_writer.described(metadata, tensors)


def test_a_file_without_architecture_is_refused() -> None:
    with pytest.raises(ModelUnreadable, match="what kind of model"):
        gguf_writer.described({"general.name": ("str", "x")}, [])


def test_a_split_model_is_put_together() -> None:
    whole = gguf_writer.described(*gguf_writer.transformer(layers=2))
    first, second = part(0, 2), part(1, 2, first=False)
    names = split_files(first.name, first)
    assert names == ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf")
    model = describe([first, second])
    assert model.tensor_bytes == whole.tensor_bytes
    assert model.layer_bytes == whole.layer_bytes


def test_an_unsplit_model_is_one_file() -> None:
    metadata, tensors = gguf_writer.transformer()
    header = read_header(io.BytesIO(gguf_writer.header(metadata, tensors)[0]), name="m.gguf")
    assert split_files("m.gguf", header) == ("m.gguf",)


@pytest.mark.parametrize("name", ["renamed.gguf", "m-00002-of-00002.gguf", "m-00001-of-00003.gguf"])
def test_the_first_file_must_keep_its_name(name: str) -> None:
    with pytest.raises(ModelUnreadable, match="part of a model in 2 files"):
        split_files(name, part(0, 2))


def test_missing_and_mixed_up_files_are_noticed() -> None:
    with pytest.raises(ModelUnreadable, match="consists of 2 files"):
        describe([part(0, 2)])
    with pytest.raises(ModelUnreadable, match="not file 2"):
        describe([part(0, 2), part(0, 2)])
