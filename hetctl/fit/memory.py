"""Memory that a placement takes on each device, as far as it can be computed exactly.

Weights come from the tensor table, the KV cache from llama.cpp's own arithmetic (src/llama-kv-cache.cpp,
src/llama-kv-cache-iswa.cpp and src/llama-context.cpp at b11434). Compute buffers are not modelled. What is
not known is None, never an estimate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hetctl.catalog.formats import architectures, format_named, tensor_places
from hetctl.fit.gguf import Tensor
from hetctl.fit.model import Model
from hetctl.fit.placement import Layout

_PADDING = 256
"""Cells of a cache are a multiple of this (src/llama-context.cpp)."""


@dataclass(frozen=True, slots=True)
class Cache:
    """How the KV cache is set up.

    Arguments:
        context: Tokens of context of each slot.
        slots: Requests served at once.
        unified: Slots share one pool.
        type_k: Format of the keys.
        type_v: Format of the values.
        batch: Tokens handled in one logical step.
        ubatch: Tokens computed at once.
        flash_attention: It is on.
    """

    context: int
    slots: int = 1
    unified: bool = False
    type_k: str = "f16"
    type_v: str = "f16"
    batch: int = 2048
    ubatch: int = 512
    flash_attention: bool = True


@dataclass(frozen=True, slots=True)
class Override:
    """Tensors that lie elsewhere than their layer.

    Arguments:
        pattern: Regular expression, found anywhere in a tensor's name.
        device: Index of the device; None for the head's CPU.
    """

    pattern: str
    device: int | None


@dataclass(frozen=True, slots=True)
class Share:
    """What one device, or the head's CPU, holds.

    Arguments:
        layers: Repeating layers.
        output: It holds the output layer.
        weights: Bytes of tensors.
        kv: Bytes of the KV cache; None when this kind of cache is not modelled.
        compute: Bytes for computing; None: not modelled yet.
    """

    layers: int
    output: bool
    weights: int
    kv: int | None
    compute: int | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a placement takes.

    Arguments:
        devices: For each device, in order.
        host: On the head's CPU: input layer, layers left there, their cache.
        notes: Why something is not known, one sentence each.
    """

    devices: tuple[Share, ...]
    host: Share
    notes: tuple[str, ...]


def experts_on_cpu(count: int) -> tuple[Override, ...]:
    """Return the overrides that `-ncmoe count` stands for (common/common.h, LLM_FFN_EXPS_REGEX)."""
    return tuple(
        Override(rf"blk\.{layer}\.ffn_(up|down|gate|gate_up)_(ch|)exps", None) for layer in range(count)
    )


def predict(
    model: Model, layout: Layout, device_count: int, cache: Cache, overrides: Sequence[Override] = ()
) -> Prediction:
    """Return what `model` takes where `layout` puts it, in split mode layer or none.

    Weights are the bytes of the file's tensors: a tied embedding counts twice when the output layer is on a
    device, as llama.cpp keeps a copy there. Backends that pad or repack tensors take a little more.

    Arguments:
        model: The model.
        layout: Where its layers are, from `place`.
        device_count: How many devices there are, some of them perhaps without a layer.
        cache: Its KV cache.
        overrides: In the order of the command line; the first that fits a tensor counts.
    """
    holders: list[int | None] = [*range(device_count), None]
    weights = dict.fromkeys(holders, 0)
    for tensor, device in _weights(model, layout, overrides):
        weights[device] += tensor.bytes
    per_layer = cache_bytes(model, cache)
    notes = [] if per_layer is not None else [_why_unknown(model, cache)]
    if model.nextn:
        notes.append("weights include the layers for multi-token prediction, which may not be loaded")

    def share(device: int | None) -> Share:
        layers = [layer for layer, owner in enumerate(layout.layers) if owner == device]
        kv = None if per_layer is None else sum(per_layer[layer] for layer in layers)
        return Share(len(layers), layout.output == device, weights[device], kv)

    return Prediction(tuple(share(device) for device in range(device_count)), share(None), tuple(notes))


def cache_bytes(model: Model, cache: Cache) -> tuple[int, ...] | None:
    """Return the bytes of each layer's KV cache; None when the model caches in a way that is not modelled."""
    windowed = windowed_layers(model)
    if windowed is None or _why_unknown(model, cache):
        return None
    streams, cells = _streams_and_cells(cache)
    window = model.window or architectures()[model.architecture].window
    batch = min(cells * streams, cache.batch)
    seen_at_once = cache.slots if cache.unified else 1
    in_window = _padded(min(cells, window * seen_at_once + min(batch, cache.ubatch)))
    return tuple(
        streams * (in_window if is_windowed else cells) * _row(model, cache, layer, windowed=is_windowed)
        for layer, is_windowed in enumerate(windowed)
    )


def windowed_layers(model: Model) -> tuple[bool, ...] | None:
    """Return for each layer whether it keeps only a window; None for an architecture that is not known."""
    known = architectures().get(model.architecture)
    if known is None:
        return None
    window = model.window or known.window
    if known.cache == "plain" or not window:
        return (False,) * model.block_count
    if model.windowed:
        return model.windowed[: model.block_count]
    every = model.window_every or known.window_every
    # set_swa_pattern of src/llama-hparams.cpp: the last layer of each group keeps the whole context.
    return tuple(layer % every < every - 1 for layer in range(model.block_count))


def _weights(model: Model, layout: Layout, overrides: Sequence[Override]) -> list[tuple[Tensor, int | None]]:
    """Return each tensor with where it lies; a copied tensor stands once for each copy."""
    patterns = [(re.compile(override.pattern), override.device) for override in overrides]
    tied = not any(tensor.name == "output.weight" for tensor in model.tensors)
    used: set[int | None] = set(layout.layers)
    placed: list[tuple[Tensor, int | None]] = []
    for tensor in model.tensors:
        override = next((each for each in patterns if each[0].search(tensor.name)), None)
        if override is not None:
            placed.append((tensor, override[1]))
            continue
        if tensor.layer is not None:
            placed.append((tensor, layout.layers[tensor.layer] if tensor.layer < model.block_count else None))
            continue
        row = tensor_places().get(tensor.name.removesuffix(".weight").removesuffix(".bias"))
        if row is None:
            placed.append((tensor, layout.output))
        elif row.place == "each":
            placed.extend((tensor, device) for device in used)
        elif row.place == "first":
            placed.append((tensor, layout.layers[0]))
        else:
            placed.append((tensor, None))
            if tensor.name == "token_embd.weight" and tied and layout.output is not None:
                placed.append((tensor, layout.output))
    return placed


def _streams_and_cells(cache: Cache) -> tuple[int, int]:
    total = _padded(cache.context * cache.slots)
    if cache.unified:
        return 1, total
    return cache.slots, _padded(total // cache.slots)


def _row(model: Model, cache: Cache, layer: int, *, windowed: bool) -> int:
    """Return the bytes one cell takes in `layer`."""
    key = model.key_length_windowed if windowed else model.key_length
    value = model.value_length_windowed if windowed else model.value_length
    heads = model.kv_heads[layer]
    return format_named(cache.type_k).size(key * heads) + format_named(cache.type_v).size(value * heads)


def _why_unknown(model: Model, cache: Cache) -> str:
    """Return why the KV cache of `model` cannot be computed; empty when it can."""
    unknown = "the KV cache is not computed: "
    if model.architecture not in architectures():
        return f"{unknown}the architecture {model.architecture} is not modelled"
    if model.compressed or model.recurrent or model.nextn:
        return f"{unknown}compressed, recurrent and multi-token layers are not modelled"
    if not model.kv_heads or not model.key_length or not model.value_length:
        return f"{unknown}the file does not say how wide its keys and values are"
    if not cache.flash_attention and len(set(model.kv_heads)) > 1:
        return f"{unknown}without flash attention values are padded where layers differ"
    blocks = [
        (format_named(cache.type_k).block, model.key_length),
        (format_named(cache.type_v).block, model.value_length),
    ]
    if any(heads * width % block for heads in model.kv_heads for block, width in blocks):
        return f"{unknown}the heads do not fill blocks of this format"
    return ""


def _padded(cells: int) -> int:
    return -(-cells // _PADDING) * _PADDING
