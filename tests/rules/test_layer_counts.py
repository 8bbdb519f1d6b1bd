from __future__ import annotations

from pathlib import Path

import pytest

from hetctl.errors import ManifestInvalid, Problem
from hetctl.fit.model import Model, read_model
from hetctl.manifest import load
from hetctl.manifest.references import Resolved, resolve
from hetctl.rules.layer_counts import check_layer_counts
from tests.fit import gguf_writer

MANIFEST = """\
apiVersion: hetctl/v1
kind: Cluster
name: den
nodes:
  bench: {address: 10.0.0.7, cpuWorkers: {a: {}, b: {}, c: {}, d: {}}}
builds:
  main: {version: b11434, source: {archive: llama.cpp.tar.gz}}
models:
  gemma: {source: gemma.gguf}
placements:
  one: {model: gemma, devices: [bench/a, bench/b], layers: {bench/a: ONE, bench/b: 10}}
  two:
    model: gemma
    devices: [bench/c, bench/d]
    layers:
      bench/c: 12
      bench/d: 1
      cpu: TWO
    server: {port: 8081}
"""


def resolved(directory: Path, one: int, two: int) -> Resolved:
    path = directory / "cluster.yaml"
    path.write_text(MANIFEST.replace("ONE", str(one)).replace("TWO", str(two)))
    return resolve(load([path]))


def problems(directory: Path, one: int, two: int) -> list[Problem]:
    with pytest.raises(ManifestInvalid) as caught:
        check_layer_counts(resolved(directory, one, two))
    return list(caught.value.problems)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    gguf_writer.write(tmp_path / "gemma.gguf", *gguf_writer.transformer(layers=18))
    return tmp_path


def test_layers_that_add_up_are_fine(place: Path) -> None:
    check_layer_counts(resolved(place, 8, 5))


def test_each_placement_that_does_not_add_up_is_told_at_its_layers(place: Path) -> None:
    one, two = problems(place, 9, 3)
    assert (one.code, one.position.line, one.position.column) == ("E233", 11, 52)
    assert one.message == "layers adds up to 19, and model 'gemma' has 18 layers"
    assert one.hint == "1 fewer, for example `bench/b: 9`"
    assert (two.code, two.position.line, two.position.column) == ("E233", 15, 5)
    assert two.message == "layers adds up to 16, and model 'gemma' has 18 layers"
    assert two.hint == "2 more, for example `bench/d: 3`"


@pytest.mark.parametrize(
    ("one", "two", "hint"),
    [
        (8, 20, "15 fewer, for example `cpu: 5`"),  # no device has that many to give
        (8, 500, "495 fewer, for example `cpu: 5`"),
        (8, 10, "5 fewer, for example `bench/c: 7`"),
    ],
)
def test_the_example_is_one_that_works(place: Path, one: int, two: int, hint: str) -> None:
    (problem,) = problems(place, one, two)
    assert problem.hint == hint


def test_without_an_example_the_number_has_to_do(place: Path) -> None:
    gguf_writer.write(place / "gemma.gguf", *gguf_writer.transformer(layers=1))
    assert {problem.hint for problem in problems(place, 9, 5)} == {"18 fewer", "17 fewer"}


def test_a_file_that_cannot_be_read_is_somebody_elses_trouble(tmp_path: Path) -> None:
    check_layer_counts(resolved(tmp_path, 1, 1))
    (tmp_path / "gemma.gguf").write_bytes(b"no model")
    check_layer_counts(resolved(tmp_path, 1, 1))
    (tmp_path / "gemma.gguf").unlink()
    (tmp_path / "gemma.gguf").mkdir()
    check_layer_counts(resolved(tmp_path, 1, 1))


def test_one_file_is_read_once_and_only_where_layers_are_counted(place: Path) -> None:
    read: list[Path] = []

    def describe(path: Path) -> Model:
        read.append(path)
        return read_model(path)

    check_layer_counts(resolved(place, 8, 5), describe)
    assert len(read) == 1
    text = (place / "cluster.yaml").read_text()
    (place / "cluster.yaml").write_text(
        text.split("  two:")[0].replace(", layers: {bench/a: 8, bench/b: 10}", "")
    )
    check_layer_counts(resolve(load([place / "cluster.yaml"])), describe)
    assert len(read) == 1
