"""Predictions against what llama.cpp printed, for a real model and for models whose data is a hole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hetctl.fit.memory import Cache, Override, Prediction, cache_bytes, experts_on_cpu, predict
from hetctl.fit.model import Model
from hetctl.fit.placement import place, split_arguments
from tests.fit import gguf_writer

MIB = 2**20
DATA = Path(__file__).parent / "data"
MEASURED: list[dict[str, Any]] = json.loads((DATA / "measured.json").read_text(encoding="utf-8"))


def model_of(case: dict[str, Any]) -> Model:
    if "recipe" in case:
        recipe = dict(case["recipe"])
        return gguf_writer.described(*gguf_writer.MODELS[recipe.pop("make")](**recipe))
    table = json.loads((DATA / f"{case['model']}.json").read_text(encoding="utf-8"))
    return gguf_writer.described(table["metadata"], table["tensors"])


def prediction_of(case: dict[str, Any]) -> Prediction:
    model = model_of(case)
    split = split_arguments(case["layers"], case["cpu"], model.block_count)
    layout = place(model.block_count, split.gpu_layers, split.tensor_split)
    overrides = experts_on_cpu(case.get("experts_on_cpu", 0))
    return predict(model, layout, len(case["layers"]), Cache(**case["cache"]), overrides)


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: f"{case['model']}-{case['layers']}")
def test_weights_and_cache_are_what_llama_cpp_takes(case: dict[str, Any]) -> None:
    predicted = prediction_of(case)
    # The server's log rounds to 0.01 MiB, llama-fit-params cuts the fraction off.
    in_log = case["by"] == "llama-server log"

    def printed(size: int) -> float:
        return round(size / MIB, 2) if in_log else size // MIB

    for share, measured in zip(predicted.devices, case["measured"], strict=True):
        assert share.kv is not None
        assert {"weights": printed(share.weights), "kv": printed(share.kv)} == measured
    assert predicted.host.kv is not None
    assert predicted.host.kv / MIB == pytest.approx(case["host_kv"], abs=0.03 if in_log else 1)
    if "host_weights" in case and "experts_on_cpu" not in case:
        assert printed(predicted.host.weights) == case["host_weights"]
    assert predicted.notes == ()


@pytest.mark.parametrize(
    ("heads", "cache", "expected"),
    [
        (8, Cache(8192), 1.0),
        (8, Cache(4096, slots=2), 1.0),
        (8, Cache(4096, slots=2, unified=True), 1.0),
        (16, Cache(32768), 8.0),
        (16, Cache(32768, type_k="q8_0", type_v="q8_0"), 4.25),
        (16, Cache(32768, type_k="q4_0", type_v="q4_0"), 2.25),
    ],
)
def test_cache_of_plain_attention(heads: int, cache: Cache, expected: float) -> None:
    model = gguf_writer.described(
        *gguf_writer.transformer(layers=32, width=4096, heads=32, kv_heads=heads, feed_forward=256)
    )
    per_layer = cache_bytes(model, cache)
    assert per_layer is not None
    assert sum(per_layer) == expected * 2**30


def test_cache_counts_the_heads_of_each_layer() -> None:
    model = gguf_writer.described(*gguf_writer.transformer(layers=3, kv_heads=[1, 2, 4]))
    assert cache_bytes(model, Cache(1024)) == (2**18, 2**19, 2**20)


def test_padding_of_uneven_contexts() -> None:
    model = gguf_writer.described(*gguf_writer.transformer(layers=1, kv_heads=1))
    cell = 64 * 2 * 2
    assert cache_bytes(model, Cache(1)) == (256 * cell,)
    assert cache_bytes(model, Cache(100, slots=3)) == (3 * 256 * cell,)


@pytest.mark.parametrize(
    "extra",
    [
        {"llama.attention.kv_lora_rank": ("u32", 512)},
        {"llama.ssm.state_size": ("u32", 16)},
        {"llama.nextn_predict_layers": ("u32", 1)},
    ],
)
def test_a_cache_that_is_not_modelled_is_unknown(extra: dict[str, gguf_writer.Pair]) -> None:
    model = gguf_writer.described(*gguf_writer.transformer(extra=extra))
    predicted = predict(model, place(4, 99, [1]), 1, Cache(1024))
    assert predicted.devices[0].kv is None
    assert predicted.devices[0].weights > 0
    assert predicted.notes


def test_an_unknown_architecture_has_no_cache_but_weights() -> None:
    metadata, tensors = gguf_writer.transformer("brandnew")
    predicted = predict(gguf_writer.described(metadata, tensors), place(4, 99, [1]), 1, Cache(1024))
    assert predicted.devices[0].kv is None
    assert "brandnew" in predicted.notes[0]


def test_a_block_format_that_heads_do_not_fill_is_unknown() -> None:
    model = gguf_writer.described(*gguf_writer.transformer(width=144, heads=9, kv_heads=1, kind="f16"))
    assert cache_bytes(model, Cache(1024)) is not None
    assert cache_bytes(model, Cache(1024, type_k="q8_0")) is None


def test_without_flash_attention_uneven_heads_are_unknown() -> None:
    model = gguf_writer.described(*gguf_writer.transformer(layers=3, kv_heads=[1, 2, 4]))
    assert cache_bytes(model, Cache(1024, flash_attention=False)) is None


def test_every_byte_of_the_file_lies_somewhere() -> None:
    model = gguf_writer.described(*gguf_writer.transformer(layers=8))
    predicted = predict(model, place(8, 6, [3, 3]), 2, Cache(1024))
    assert sum(share.weights for share in (*predicted.devices, predicted.host)) == model.tensor_bytes
    assert [share.layers for share in (*predicted.devices, predicted.host)] == [3, 2, 3]


def test_a_tied_embedding_is_copied_to_the_device_of_the_output_layer() -> None:
    model = gguf_writer.described(*gguf_writer.transformer(tied=True))
    embedding = next(tensor.bytes for tensor in model.tensors if tensor.name == "token_embd.weight")
    predicted = predict(model, place(4, 99, [1]), 1, Cache(1024))
    assert predicted.devices[0].weights + predicted.host.weights == model.tensor_bytes + embedding
    alone = predict(model, place(4, 0, ()), 0, Cache(1024))
    assert alone.host.weights == model.tensor_bytes


def test_overrides_move_tensors_and_the_first_one_counts() -> None:
    model = gguf_writer.described(*gguf_writer.transformer())
    layout = place(4, 99, [3, 2])
    plain = predict(model, layout, 2, Cache(1024))
    moved = predict(
        model, layout, 2, Cache(1024), (Override(r"blk\.0\.ffn_down", 1), Override(r"blk\.0\.ffn", None))
    )
    down = next(tensor.bytes for tensor in model.tensors if tensor.name == "blk.0.ffn_down.weight")
    assert moved.devices[1].weights - plain.devices[1].weights == down
    assert moved.host.weights > plain.host.weights
    assert moved.devices[0].kv == plain.devices[0].kv


def test_tensors_shared_by_all_layers_lie_on_every_device() -> None:
    metadata, tensors = gguf_writer.transformer()
    model = gguf_writer.described(metadata, [*tensors, ("rope_freqs.weight", (32,), "f32")])
    plain = gguf_writer.described(metadata, tensors)
    layout = place(4, 99, [2, 3])
    more = [
        one.weights - other.weights
        for one, other in zip(
            predict(model, layout, 2, Cache(1024)).devices,
            predict(plain, layout, 2, Cache(1024)).devices,
            strict=True,
        )
    ]
    assert more == [128, 128]
