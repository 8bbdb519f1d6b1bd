"""A small BERT as GGUF for the tasks embedding and rerank, from a published sentence model.

What llama.cpp's conversion/bert.py does, for this one model: same names, same vocabulary rules.

No reranker small enough for tests is published as a package. So the ranking model is the same encoder with a
linear head of our own: logistic regression on 2,814 pairs of short and long descriptions of 704 Debian
packages. Of 150 packages left out of the fit, the right description scored above each wrong one in 93 %
of cases.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from pathlib import Path

from tests.lab.gguf_file import F16, F32, Tensor, Value, write_gguf

POOLING_MEAN = 1
POOLING_RANK = 4
_NORMAL, _CONTROL = 1, 3  # llama.cpp's token types

_NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}
_LAYER_NAMES = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


RANKING_HEAD = Path(__file__).with_name("ranking_head.txt")
"""How much each hidden value of the first token counts in the score of a query and a document."""


def convert(folder: Path, target: Path, *, ranking: bool = False) -> None:
    """Write the model in `folder` to `target`.

    Arguments:
        folder: Holds config.json, vocab.txt and model.safetensors.
        target: The GGUF file to make.
        ranking: Make a model that ranks documents, instead of one for embeddings.
    """
    config = json.loads((folder / "config.json").read_text())
    tokens = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    metadata = _metadata(config, tokens, POOLING_RANK if ranking else POOLING_MEAN)
    tensors = _read_tensors(folder / "model.safetensors")
    if ranking:
        weights = [float(line) for line in RANKING_HEAD.read_text().split()]
        tensors["cls.output.weight"] = Tensor(
            (1, len(weights)), F32, struct.pack(f"<{len(weights)}f", *weights)
        )
    write_gguf(target, metadata, tensors)


def _metadata(config: dict[str, int | float], tokens: list[str], pooling: int) -> dict[str, Value]:
    special = {name: tokens.index(name) for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
    return {
        "general.architecture": "bert",
        "general.name": "all-MiniLM-L6-v2",
        "general.file_type": 1,
        "bert.block_count": config["num_hidden_layers"],
        "bert.context_length": config["max_position_embeddings"],
        "bert.embedding_length": config["hidden_size"],
        "bert.feed_forward_length": config["intermediate_size"],
        "bert.attention.head_count": config["num_attention_heads"],
        "bert.attention.layer_norm_epsilon": float(config["layer_norm_eps"]),
        "bert.attention.causal": False,
        "bert.pooling_type": pooling,
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.token_type_count": config["type_vocab_size"],
        "tokenizer.ggml.tokens": [_vocabulary_entry(token, special) for token in tokens],
        "tokenizer.ggml.token_type": [_CONTROL if token in special else _NORMAL for token in tokens],
        "tokenizer.ggml.unknown_token_id": special["[UNK]"],
        "tokenizer.ggml.seperator_token_id": special["[SEP]"],  # spelt like this in the format
        "tokenizer.ggml.padding_token_id": special["[PAD]"],
        "tokenizer.ggml.cls_token_id": special["[CLS]"],
        "tokenizer.ggml.mask_token_id": special["[MASK]"],
    }


def _vocabulary_entry(token: str, special: dict[str, int]) -> str:
    """Return a token as llama.cpp wants it: what begins a word is marked, what continues one is bare."""
    if token in special:
        return token
    return token.removeprefix("##") if token.startswith("##") else f"\N{LOWER ONE EIGHTH BLOCK}{token}"


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file of 32-bit floats; tables of weights become 16-bit."""
    with path.open("rb") as file:
        [length] = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        body = file.read()
    tensors = {}
    for name, entry in header.items():
        target = _target_name(name)
        if target:
            start, end = entry["data_offsets"]
            shape = tuple(entry["shape"])
            wide = len(shape) == 1 or target.startswith(("position_embd", "token_types"))
            data = body[start:end] if wide else _halved(body[start:end])
            tensors[target] = Tensor(shape, F32 if wide else F16, data)
    return tensors


def _target_name(name: str) -> str:
    """Return llama.cpp's name for a tensor, empty for one it does not use."""
    stem, _, kind = name.rpartition(".")
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{kind}"
    if stem.startswith("encoder.layer."):
        index, _, part = stem.removeprefix("encoder.layer.").partition(".")
        return f"blk.{index}.{_LAYER_NAMES[part]}.{kind}"
    return ""


def _halved(data: bytes) -> bytes:
    values = array("f", data)
    if sys.byteorder == "big":
        values.byteswap()
    return struct.pack(f"<{len(values)}e", *values)
