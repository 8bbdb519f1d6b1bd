"""What a planner needs to know of a model: its layers, its attention, and the bytes of each tensor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hetctl.errors import ModelUnreadable
from hetctl.fit.gguf import Header, Omitted, Tensor, read_header

MAX_LAYERS = 512
"""LLAMA_MAX_LAYERS of llama.cpp."""

_SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


@dataclass(frozen=True)
class Model:
    """A model as its file or files describe it.

    Arguments:
        name: The file, for messages.
        architecture: Such as `qwen3`.
        block_count: Repeating layers, those for multi-token prediction included.
        context_length: Tokens it was trained for; 0 when the file does not say.
        embedding_length: Width of the residual stream; 0 when the file does not say.
        vocabulary: Tokens; 0 when the file does not say.
        heads: Attention heads of each layer; empty when the file does not say.
        kv_heads: Key and value heads of each layer.
        key_length: Width of a key head.
        value_length: Width of a value head.
        key_length_windowed: Width of a key head in layers with a sliding window.
        value_length_windowed: Width of a value head in layers with a sliding window.
        window: Tokens of the sliding window; 0 for none.
        window_every: Every how manyth layer keeps the whole context, as the file says; 0 when it does not.
        windowed: For each layer whether it has the sliding window, as the file says; empty when it does not.
        compressed: Keys and values are kept compressed (MLA).
        recurrent: It has layers with a recurrent state.
        nextn: Layers for multi-token prediction, at the end of the repeating ones.
        experts: Experts of a layer; 0 for a dense model.
        trained_template: It brings a chat template.
        tensors: All of them, over all files.
    """

    name: str
    architecture: str
    block_count: int
    context_length: int
    embedding_length: int
    vocabulary: int
    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    key_length: int
    value_length: int
    key_length_windowed: int
    value_length_windowed: int
    window: int
    window_every: int
    windowed: tuple[bool, ...]
    compressed: bool
    recurrent: bool
    nextn: int
    experts: int
    trained_template: bool
    tensors: tuple[Tensor, ...]

    @cached_property
    def layer_bytes(self) -> tuple[int, ...]:
        """Bytes of each repeating layer's tensors."""
        sizes = [0] * self.block_count
        for tensor in self.tensors:
            if tensor.layer is not None and tensor.layer < self.block_count:
                sizes[tensor.layer] += tensor.bytes
        return tuple(sizes)

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def largest_tensor(self) -> int:
        """Bytes of the largest tensor."""
        return max((tensor.bytes for tensor in self.tensors), default=0)


def split_files(name: str, header: Header) -> tuple[str, ...]:
    """Return the names of all files of a model, `name` being the first; just `name` for an unsplit one.

    llama.cpp finds the others by name, in the directory of the first (tools/gguf-split).

    Raises:
        ModelUnreadable: The model is split, and `name` is not the name of its first file.
    """
    count = _whole(header, "split.count", 1)
    if count <= 1:
        return (name,)
    found = _SPLIT_NAME.fullmatch(name)
    if found is None or int(found["count"]) != count or int(found["number"]) != 1:
        raise ModelUnreadable(
            f"this is a part of a model in {count} files",
            where=name,
            why="llama.cpp finds the others by their names, which end in -00001-of-" + f"{count:05d}.gguf",
            fix="give the first file, under the name it was published with",
        )
    return tuple(f"{found['stem']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1))


def describe(headers: Sequence[Header]) -> Model:
    """Return the model that `headers`, one a file and in order, make up.

    Raises:
        ModelUnreadable: Files are missing, or the first says too little to run it.
    """
    first = headers[0]
    count = max(1, _whole(first, "split.count", 1))
    if len(headers) != count:
        raise ModelUnreadable(
            f"the model consists of {count} files", where=first.name, why=f"{len(headers)} were given"
        )
    for number, header in enumerate(headers):
        if count > 1 and _whole(header, "split.no", -1) != number:
            raise ModelUnreadable(
                f"this is not file {number + 1} of {first.name}",
                where=header.name,
                why="its split.no says so",
            )
    architecture = first.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise ModelUnreadable(
            "the file does not say what kind of model it holds",
            where=first.name,
            why="general.architecture is missing",
            fix="give a model file; a vocabulary or projector alone cannot be served",
        )
    return _Reader(first, architecture).model(
        tuple(tensor for header in headers for tensor in header.tensors)
    )


def read_model(path: Path) -> Model:
    """Return what the header of a model in one file says.

    Raises:
        ModelUnreadable: It is no model file, damaged, or one of several.
        OSError: It cannot be read.
    """
    with path.open("rb") as stream:
        return describe([read_header(stream, name=str(path), size=path.stat().st_size)])


def _whole(header: Header, key: str, default: int) -> int:
    value = header.metadata.get(key, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


class _Reader:
    """Reads the keys of one architecture, with llama.cpp's defaults (src/llama-model.cpp, load_hparams)."""

    def __init__(self, header: Header, architecture: str) -> None:
        self.header = header
        self.prefix = architecture
        self.blocks = self.whole("block_count", 0)
        if not 0 < self.blocks <= MAX_LAYERS:
            raise ModelUnreadable(
                f"the model claims {self.blocks} layers",
                where=header.name,
                why=f"{architecture}.block_count is missing or makes no sense",
                fix="give a language model; a projector or adapter has a key of its own",
            )

    def model(self, tensors: tuple[Tensor, ...]) -> Model:
        heads = self.per_layer("attention.head_count")
        width = self.whole("embedding_length", 0)
        head_width = width // heads[0] if heads and heads[0] else 0
        key, value = (
            self.whole("attention.key_length", head_width),
            self.whole("attention.value_length", head_width),
        )
        pattern = self.value("attention.sliding_window_pattern")
        template = self.header.metadata.get("tokenizer.chat_template")
        return Model(
            name=self.header.name,
            architecture=self.prefix,
            block_count=self.blocks,
            context_length=self.whole("context_length", 0),
            embedding_length=width,
            vocabulary=self.vocabulary(),
            heads=heads,
            kv_heads=self.per_layer("attention.head_count_kv") or heads,
            key_length=key,
            value_length=value,
            key_length_windowed=self.whole("attention.key_length_swa", key),
            value_length_windowed=self.whole("attention.value_length_swa", value),
            window=self.whole("attention.sliding_window", 0),
            window_every=pattern if isinstance(pattern, int) else 0,
            windowed=tuple(map(bool, pattern)) if isinstance(pattern, tuple) else (),
            compressed=bool(self.whole("attention.kv_lora_rank", 0)),
            recurrent=any(
                name.startswith((f"{self.prefix}.ssm.", f"{self.prefix}.wkv.")) for name in self.keys
            ),
            nextn=self.whole("nextn_predict_layers", 0),
            experts=self.whole("expert_count", 0),
            trained_template=bool(template),
            tensors=tensors,
        )

    @property
    def keys(self) -> Sequence[str]:
        return tuple(self.header.metadata)

    def value(self, key: str) -> object:
        return self.header.metadata.get(f"{self.prefix}.{key}")

    def whole(self, key: str, default: int) -> int:
        return _whole(self.header, f"{self.prefix}.{key}", default)

    def per_layer(self, key: str) -> tuple[int, ...]:
        """One number for all layers, or one for each."""
        value = self.value(key)
        if isinstance(value, int):
            return (value,) * self.blocks
        if isinstance(value, tuple) and len(value) >= self.blocks:
            return tuple(int(each) for each in value[: self.blocks])
        return ()

    def vocabulary(self) -> int:
        tokens = self.header.metadata.get("tokenizer.ggml.tokens")
        return self.whole("vocab_size", tokens.count if isinstance(tokens, Omitted) else 0)
