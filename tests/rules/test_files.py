from __future__ import annotations

import os
from pathlib import Path

import pytest

from hetctl.errors import ManifestInvalid
from hetctl.manifest import load
from hetctl.manifest.references import Resolved, resolve
from hetctl.rules.files import check_files

MANIFEST = """\
apiVersion: hetctl/v1
kind: Cluster
name: den
nodes:
  bench: {address: 10.0.0.7, cpuWorkers: {a: {}}}
builds:
  main: {version: b11434, source: {archive: llama.cpp.tar.gz}}
  unused: {version: b11003, source: {archive: other.tar.gz}}
models:
  gemma: {source: gemma.gguf}
  unused: {source: other.gguf}
placements:
  chat: {model: gemma, build: main, devices: [bench/a]}
"""


@pytest.fixture
def resolved(tmp_path: Path) -> Resolved:
    (tmp_path / "cluster.yaml").write_text(MANIFEST)
    return resolve(load([tmp_path / "cluster.yaml"]))


def test_files_of_placements_have_to_be_there(resolved: Resolved, tmp_path: Path) -> None:
    with pytest.raises(ManifestInvalid) as caught:
        check_files(resolved)
    build, model = caught.value.problems
    assert (build.code, build.position.line, "llama.cpp.tar.gz" in build.message) == ("E234", 7, True)
    assert (model.code, model.position.line, "gemma.gguf" in model.message) == ("E234", 10, True)
    (tmp_path / "llama.cpp.tar.gz").touch()
    (tmp_path / "gemma.gguf").mkdir()
    with pytest.raises(ManifestInvalid) as caught:
        check_files(resolved)
    assert [problem.position.line for problem in caught.value.problems] == [10]


def test_what_no_placement_uses_may_be_missing(resolved: Resolved, tmp_path: Path) -> None:
    (tmp_path / "llama.cpp.tar.gz").touch()
    (tmp_path / "gemma.gguf").touch()
    check_files(resolved)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_counts_as_missing(resolved: Resolved, tmp_path: Path) -> None:
    (tmp_path / "llama.cpp.tar.gz").touch()
    (tmp_path / "gemma.gguf").touch(mode=0)
    with pytest.raises(ManifestInvalid):
        check_files(resolved)
