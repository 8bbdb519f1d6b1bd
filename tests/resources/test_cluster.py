"""What a cluster does before any node is contacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetctl.errors import ManifestInvalid
from hetctl.fit.model import Model, read_model
from hetctl.resources import headers
from hetctl.resources.cluster import ClusterProvider, load_cluster
from hetctl.resources.provider import (
    Access,
    Plan,
    Purpose,
    Survey,
)
from tests.fit import gguf_writer

MANIFEST = """\
apiVersion: hetctl/v1
kind: Cluster
name: den
nodes:
  bench: {address: 10.0.0.7, cpuWorkers: {left: {}, right: {}}}
builds:
  main: {version: b11434, source: {archive: llama.cpp.tar.gz}}
models:
  gemma: {source: gemma.gguf}
placements:
  chat:
    model: gemma
    devices: [bench/left, bench/right]
    layers: LAYERS
"""
FITTING = "{bench/left: 1, bench/right: 3}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    gguf_writer.write(tmp_path / "gemma.gguf", *gguf_writer.transformer())
    (tmp_path / "llama.cpp.tar.gz").write_bytes(b"an archive")
    return tmp_path


def loaded(place: Path, layers: str = FITTING) -> ClusterProvider:
    (place / "cluster.yaml").write_text(MANIFEST.replace("LAYERS", layers))
    return load_cluster(place / "cluster.yaml", Access())


def test_layers_that_do_not_add_up_are_a_problem_of_the_manifest(place: Path) -> None:
    with pytest.raises(ManifestInvalid) as caught:
        loaded(place, "{bench/left: 2, bench/right: 3}")
    (problem,) = caught.value.problems
    assert (problem.code, problem.position.line) == ("E233", 14)


def test_a_missing_file_stops_what_needs_it_and_nothing_else(place: Path) -> None:
    provider = loaded(place)
    (place / "gemma.gguf").unlink()
    provider = loaded(place)
    with pytest.raises(ManifestInvalid) as caught:
        provider.desired(Survey(readings={}))
    assert [problem.code for problem in caught.value.problems] == ["E234"]
    plan = Plan("den", provider.manifest_digest, Purpose.DESTROY, (), ())
    assert provider.summaries(plan, Survey(readings={})) == ()


def test_the_digest_of_a_manifest_follows_its_files(place: Path) -> None:
    before = loaded(place).manifest_digest
    assert loaded(place).manifest_digest == before
    gguf_writer.write(place / "gemma.gguf", *gguf_writer.transformer(feed_forward=2048))
    assert loaded(place).manifest_digest != before


@pytest.mark.parametrize("layers", ["auto", FITTING])
def test_headers_are_not_read_again_in_later_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch, layers: str
) -> None:
    read: list[Path] = []

    def counted(path: Path) -> Model:
        read.append(path)
        return read_model(path)

    monkeypatch.setattr(headers, "read_model", counted)
    for run in range(4):
        provider = loaded(place, layers)
        assert provider._shapes["gemma"].block_count == 4
        assert len(read) <= min(run + 1, 2)
