"""Writes GGUF files for tests: any metadata, any tensor table, and a hole where the data would be."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hetctl.catalog.formats import format_named
from hetctl.fit.gguf import read_header
from hetctl.fit.model import Model, describe

TYPES = {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "str": 8, "u64": 10}
CODES = {
    "u8": "B",
    "i8": "b",
    "u16": "H",
    "i16": "h",
    "u32": "I",
    "i32": "i",
    "f32": "f",
    "bool": "?",
    "u64": "Q",
}

Pair = tuple[str, object]
"""Type and value; a list value makes an array."""


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def _element(kind: str, value: object) -> bytes:
    return text(str(value)) if kind == "str" else struct.pack("<" + CODES[kind], value)


def pair(key: str, kind: str, value: object) -> bytes:
    if isinstance(value, list):
        elements = b"".join(_element(kind, each) for each in value)
        return text(key) + struct.pack("<IIQ", 9, TYPES[kind], len(value)) + elements
    return text(key) + struct.pack("<I", TYPES[kind]) + _element(kind, value)


def header(
    metadata: Mapping[str, Pair],
    tensors: Sequence[tuple[str, tuple[int, ...], str]] = (),
    *,
    version: int = 3,
    alignment: int = 32,
) -> tuple[bytes, int]:
    """Return the bytes before the data, padded, and the bytes of the data."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    out += b"".join(pair(key, kind, value) for key, (kind, value) in metadata.items())
    offset = 0
    for name, shape, kind in tensors:
        form = format_named(kind)
        count = 1
        for extent in shape:
            count *= extent
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        out += struct.pack("<IQ", form.id, offset)
        offset += -(-form.size(count) // alignment) * alignment
    return out + b"\0" * (-len(out) % alignment if tensors else 0), offset


def write(
    path: Path, metadata: Mapping[str, Pair], tensors: Sequence[tuple[str, tuple[int, ...], str]] = ()
) -> Path:
    """Write a file whose data is a hole, so that models of any size cost no disk."""
    start, size = header(metadata, tensors)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(len(start) + size)
    return path


def transformer(
    architecture: str = "llama",
    *,
    layers: int = 4,
    width: int = 512,
    heads: int = 8,
    kv_heads: int | list[int] = 2,
    feed_forward: int = 1024,
    vocabulary: int = 1024,
    tied: bool = False,
    kind: str = "q8_0",
    key: int = 0,
    extra: Mapping[str, Pair] | None = None,
) -> tuple[dict[str, Pair], list[tuple[str, tuple[int, ...], str]]]:
    """Return metadata and tensors of a plain decoder that llama.cpp accepts as `llama`."""
    each = kv_heads if isinstance(kv_heads, list) else [kv_heads] * layers
    head = key or width // heads
    metadata: dict[str, Pair] = {
        "general.architecture": ("str", architecture),
        f"{architecture}.block_count": ("u32", layers),
        f"{architecture}.context_length": ("u32", 131072),
        f"{architecture}.embedding_length": ("u32", width),
        f"{architecture}.feed_forward_length": ("u32", feed_forward),
        f"{architecture}.attention.head_count": ("u32", heads),
        f"{architecture}.attention.head_count_kv": ("u32", kv_heads),
        f"{architecture}.attention.layer_norm_rms_epsilon": ("f32", 1e-5),
        f"{architecture}.rope.dimension_count": ("u32", head),
        f"{architecture}.vocab_size": ("u32", vocabulary),
        "tokenizer.ggml.model": ("str", "none"),
        **(extra or {}),
    }
    if key:
        metadata[f"{architecture}.attention.key_length"] = ("u32", key)
        metadata[f"{architecture}.attention.value_length"] = ("u32", key)
    tensors = [("token_embd.weight", (width, vocabulary), kind), ("output_norm.weight", (width,), "f32")]
    if not tied:
        tensors.append(("output.weight", (width, vocabulary), kind))
    for layer, kv in enumerate(each):
        block = f"blk.{layer}."
        tensors += [
            (block + "attn_norm.weight", (width,), "f32"),
            (block + "attn_q.weight", (width, heads * head), kind),
            (block + "attn_k.weight", (width, kv * head), kind),
            (block + "attn_v.weight", (width, kv * head), kind),
            (block + "attn_output.weight", (heads * head, width), kind),
            (block + "ffn_norm.weight", (width,), "f32"),
            (block + "ffn_gate.weight", (width, feed_forward), kind),
            (block + "ffn_up.weight", (width, feed_forward), kind),
            (block + "ffn_down.weight", (feed_forward, width), kind),
        ]
    return metadata, tensors


def gemma2(layers: int = 26) -> tuple[dict[str, Pair], list[tuple[str, tuple[int, ...], str]]]:
    """A model that llama.cpp accepts as `gemma2`: windows in every other layer, embeddings tied."""
    metadata, tensors = transformer(
        "gemma2",
        layers=layers,
        width=2304,
        heads=8,
        kv_heads=4,
        feed_forward=9216,
        vocabulary=256000,
        tied=True,
        key=256,
        extra={"gemma2.attention.sliding_window": ("u32", 4096)},
    )
    for layer in range(layers):
        tensors.append((f"blk.{layer}.post_attention_norm.weight", (2304,), "f32"))
        tensors.append((f"blk.{layer}.post_ffw_norm.weight", (2304,), "f32"))
    return metadata, tensors


def cohere2(layers: int = 32) -> tuple[dict[str, Pair], list[tuple[str, tuple[int, ...], str]]]:
    """A model that llama.cpp accepts as `cohere2`: every fourth layer keeps the whole context."""
    metadata, tensors = transformer(
        "cohere2",
        layers=layers,
        width=4096,
        heads=32,
        kv_heads=8,
        feed_forward=14336,
        vocabulary=256000,
        tied=True,
        extra={
            "cohere2.attention.sliding_window": ("u32", 4096),
            "cohere2.attention.layer_norm_epsilon": ("f32", 1e-5),
            "cohere2.logit_scale": ("f32", 0.25),
        },
    )
    return metadata, [tensor for tensor in tensors if not tensor[0].endswith("ffn_norm.weight")]


def gpt_oss(layers: int = 24) -> tuple[dict[str, Pair], list[tuple[str, tuple[int, ...], str]]]:
    """A model that llama.cpp accepts as `gpt-oss`: experts, windows of 128 in every other layer."""
    width, inner, experts, heads, kv_heads, head = 2880, 2880, 32, 64, 8, 64
    metadata, tensors = transformer(
        "gpt-oss",
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        feed_forward=inner,
        vocabulary=201088,
        key=head,
        extra={
            "gpt-oss.attention.sliding_window": ("u32", 128),
            "gpt-oss.expert_count": ("u32", experts),
            "gpt-oss.expert_used_count": ("u32", 4),
            "gpt-oss.expert_feed_forward_length": ("u32", inner),
        },
    )
    kept = [tensor for tensor in tensors if ".ffn_" not in tensor[0]]
    for layer in range(layers):
        block = f"blk.{layer}."
        kept += [
            (block + "post_attention_norm.weight", (width,), "f32"),
            (block + "attn_sinks.weight", (heads,), "f32"),
            (block + "attn_q.bias", (heads * head,), "f32"),
            (block + "attn_k.bias", (kv_heads * head,), "f32"),
            (block + "attn_v.bias", (kv_heads * head,), "f32"),
            (block + "attn_output.bias", (width,), "f32"),
            (block + "ffn_gate_inp.weight", (width, experts), "f32"),
            (block + "ffn_gate_inp.bias", (experts,), "f32"),
            (block + "ffn_gate_exps.weight", (width, inner, experts), "mxfp4"),
            (block + "ffn_up_exps.weight", (width, inner, experts), "mxfp4"),
            (block + "ffn_down_exps.weight", (inner, width, experts), "mxfp4"),
            (block + "ffn_gate_exps.bias", (inner, experts), "f32"),
            (block + "ffn_up_exps.bias", (inner, experts), "f32"),
            (block + "ffn_down_exps.bias", (width, experts), "f32"),
        ]
    return metadata, kept


Recipe = Callable[..., tuple[dict[str, Pair], list[tuple[str, tuple[int, ...], str]]]]

MODELS: dict[str, Recipe] = {"llama": transformer, "gemma2": gemma2, "cohere2": cohere2, "gpt_oss": gpt_oss}


def described(metadata: Mapping[str, Pair], tensors: Sequence[tuple[str, tuple[int, ...], str]]) -> Model:
    """Return the model of one file with this header."""
    start, _ = header(metadata, tensors)
    return describe([read_header(io.BytesIO(start), name="model.gguf")])
