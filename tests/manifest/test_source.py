from pathlib import Path

import pytest

from hetctl.errors import Position
from hetctl.manifest import Cluster, load, load_text
from hetctl.manifest.source import KeyPath, Source

TEXT = """\
apiVersion: hetctl/v1
kind: Cluster
name: den
x-common: &common
  context: 4096
nodes:
  atlas: {address: 192.168.10.5, gpus: {fast: {match: RTX 5060 Ti}}}
builds: {main: {version: b11434, source: {archive: a.tar.gz}}}
models: {gemma: {source: gemma.gguf}}
placements:
  chat:
    <<: *common
    model: gemma
    devices:
      - atlas/fast
"""


@pytest.fixture(scope="module")
def source() -> Source:
    return load_text(TEXT).source


@pytest.mark.parametrize(
    ("path", "key", "line", "column"),
    [
        (("name",), False, 3, 7),
        (("name",), True, 3, 1),
        (("nodes", "atlas", "address"), False, 7, 20),
        (("nodes", "atlas", "gpus", "fast"), True, 7, 41),
        (("placements", "chat", "devices", 0), False, 15, 9),
        (("placements", "chat", "devices"), False, 14, 5),  # a block below its key: the key says more
        (("placements", "chat"), False, 11, 3),
        (("placements", "chat", "context"), False, 5, 12),  # merged in: where it is written
        (("placements", "chat", "slots"), False, 11, 3),  # a default: the placement that has it
        (("placements", "chat", "server", "port"), False, 11, 3),
        (("placements", "gone"), False, 10, 1),
        (("models", "gemma", "source", 0), False, 9, 26),  # one file stands for a list of one
        (("builds", "main", "source", 0, "archive"), False, 8, 52),
        (("models", "gemma", "source", 1), False, 9, 18),
        ((), False, 1, 1),
        (("vms", "x"), False, 1, 1),
    ],
)
def test_positions(source: Source, path: KeyPath, key: bool, line: int, column: int) -> None:
    assert source.position(path, key=key) == Position("cluster.yaml", line, column)


def test_a_source_of_nothing_has_no_line() -> None:
    assert str(Source().position(("nodes",))) == ""


def test_it_is_no_part_of_equality_and_serialisation() -> None:
    one, two = load_text(TEXT), load_text("# a comment\n" + TEXT, name="other.yaml")
    assert one == two
    assert one != load_text(TEXT.replace("name: den", "name: attic"))
    assert one.model_dump(mode="json") == two.model_dump(mode="json")
    assert "source" not in one.model_dump()


def _files(directory: Path) -> Cluster:
    (directory / "sub").mkdir()
    (directory / "a.yaml").write_text(
        "apiVersion: hetctl/v1\nkind: Cluster\nname: den\nnodes: {atlas: {address: 10.0.0.1}}\n"
    )
    (directory / "sub" / "b.yaml").write_text(
        "# second\napiVersion: hetctl/v1\nkind: Cluster\nnodes: {bench: {address: 10.0.0.2}}\n"
    )
    return load([directory / "a.yaml", directory / "sub" / "b.yaml"])


def test_positions_and_directories_in_several_files(tmp_path: Path) -> None:
    source = _files(tmp_path).source
    assert source.position(("nodes", "atlas"), key=True) == Position(str(tmp_path / "a.yaml"), 4, 9)
    assert source.position(("nodes", "bench"), key=True) == Position(str(tmp_path / "sub" / "b.yaml"), 4, 9)
    assert source.directory(("nodes", "bench", "ssh")) == tmp_path / "sub"
    assert source.directory(("name",)) == tmp_path


def test_digests_follow_the_bytes(tmp_path: Path) -> None:
    source = _files(tmp_path).source
    assert [Path(name).name for name in source.digests] == ["a.yaml", "b.yaml"]
    file = tmp_path / "a.yaml"
    before = load([file]).source.digests
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert load([file]).source.digests != before


def test_problems_point_and_show(source: Source) -> None:
    problem = source.problem("E000", "just so", ("placements", "chat", "model"), hint="mend it")
    assert problem.source_line == "    model: gemma"
    assert (problem.position.column, problem.width, problem.hint) == (12, 5, "mend it")
    assert problem.path == ("placements", "chat", "model")


def test_a_line_that_is_too_long_is_not_shown() -> None:
    source = load_text("apiVersion: hetctl/v1\nkind: Cluster\nname: den  #" + "x" * 2000 + "\n").source
    assert source.problem("E000", "just so", ("name",)).source_line == ""
