from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hetctl.errors import ModelUnreadable
from hetctl.fit.model import Model, read_model
from hetctl.resources import headers
from hetctl.resources.headers import KIND, ModelFiles, model_from_json, model_to_json
from hetctl.transport.workstation import Workstation
from tests.fit import gguf_writer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return gguf_writer.write(tmp_path / "gemma.gguf", *gguf_writer.transformer(layers=26))


@pytest.fixture
def workstation(tmp_path: Path) -> Workstation:
    return Workstation(tmp_path / "cache")


class Counted:
    """Reads headers and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, path: Path) -> Model:
        self.times += 1
        return read_model(path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    monkeypatch.setattr(headers, "read_model", counted)
    return counted


@pytest.mark.parametrize("make", gguf_writer.MODELS)
def test_a_model_survives_being_remembered(make: str, tmp_path: Path) -> None:
    model = read_model(gguf_writer.write(tmp_path / "m.gguf", *gguf_writer.MODELS[make]()))
    assert model_from_json(json.loads(json.dumps(model_to_json(model)))) == model


def test_a_header_is_read_once_for_each_content(file: Path, workstation: Workstation, reads: Counted) -> None:
    workstation.digest(file)
    first = ModelFiles(workstation)
    assert first.describe(file) == first.describe(file) == read_model(file)
    assert ModelFiles(workstation).describe(file) == read_model(file)
    moved = file.rename(file.with_name("other.gguf"))
    workstation.digest(moved)
    assert ModelFiles(workstation).describe(moved).name == str(moved)
    assert reads.times == 1


def test_nothing_is_hashed_to_read_a_header(file: Path, workstation: Workstation, reads: Counted) -> None:
    files = ModelFiles(workstation)
    assert files.describe(file).block_count == files.describe(file).block_count == 26
    assert not workstation.cache.exists()
    assert reads.times == 1


def test_a_file_with_another_content_is_read_anew(file: Path, workstation: Workstation) -> None:
    workstation.digest(file)
    ModelFiles(workstation).describe(file)
    os.utime(gguf_writer.write(file, *gguf_writer.transformer(layers=3)), ns=(1, 1))
    assert ModelFiles(workstation).describe(file).block_count == 3


@pytest.mark.parametrize("kept", ["", "[]", "{}", '{"reader": "READER", "model": {"layers": 1}}', "\0"])
def test_a_damaged_memory_costs_time_and_nothing_else(
    file: Path, workstation: Workstation, kept: str, reads: Counted
) -> None:
    content = workstation.digest(file)
    memory = workstation.cache / KIND / f"{content}.json"
    memory.parent.mkdir(parents=True)
    memory.write_text(kept.replace("READER", headers.reader_digest()))
    assert ModelFiles(workstation).describe(file) == read_model(file)
    assert reads.times == 1
    assert ModelFiles(workstation).describe(file) == read_model(file)
    assert reads.times == 1


def test_what_another_reader_remembered_does_not_count(
    file: Path, workstation: Workstation, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = workstation.digest(file)
    ModelFiles(workstation).describe(file)
    kept = workstation.recall(KIND, content)
    workstation.remember(KIND, content, {**kept, "model": {**kept["model"], "block_count": 99}})
    assert ModelFiles(workstation).describe(file).block_count == 99
    monkeypatch.setattr(headers, "reader_digest", lambda: "a later reader")
    assert ModelFiles(workstation).describe(file).block_count == 26


def test_what_is_no_model_is_refused_each_time(tmp_path: Path, workstation: Workstation) -> None:
    path = tmp_path / "no.gguf"
    path.write_bytes(b"PK\3\4")
    workstation.digest(path)
    for _ in range(2):
        with pytest.raises(ModelUnreadable):
            ModelFiles(workstation).describe(path)
