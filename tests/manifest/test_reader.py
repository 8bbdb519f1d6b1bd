import io
import os
from pathlib import Path

import pytest

from hetctl.errors import ManifestInvalid, Problem
from hetctl.manifest import load, load_text
from hetctl.manifest.reader import FILE_LIMIT, SIZE_LIMIT, decode, read

SMALL = "apiVersion: hetctl/v1\nkind: Cluster\nname: den\n"


def _codes(paths: list[Path | str]) -> list[str]:
    with pytest.raises(ManifestInvalid) as caught:
        load(paths)
    return [problem.code for problem in caught.value.problems]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"])
def test_other_encodings_are_named(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_bytes((SMALL + "x-a: ä€\n" if encoding != "latin-1" else SMALL + "x-a: ä\n").encode(encoding))
    assert _codes([file]) == ["E003"]


def test_the_place_of_a_bad_byte() -> None:
    problem = decode("a.yaml", "x-a: ä\nx-b: ä".encode() + b"\xff\n")
    assert isinstance(problem, Problem)
    assert (problem.position.line, problem.position.column) == (2, 7)


@pytest.mark.parametrize(
    "content", [b"\x7fELF\x02\x01", bytes(range(256)), b"GGUF\x03\x00\x00\x00", b"\x1f\x8b\x08"]
)
def test_binaries(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_bytes(content)
    assert _codes([file]) == ["E003"]


@pytest.mark.parametrize(
    "content", [b"", b"\n", b" \n \n", b"\xef\xbb\xbf", b"# a\n", b"---\n", b"---\n...\n", b"~\n"]
)
def test_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_bytes(content)
    assert _codes([file]) == ["E004"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_every_system(end: str) -> None:
    assert load_text(SMALL.replace("\n", end)).source.position(("name",)).line == 3


def test_a_byte_order_mark_takes_no_column(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert load([file]).source.position(("apiVersion",), key=True).column == 1


def test_what_cannot_be_read(tmp_path: Path) -> None:
    assert _codes([tmp_path / "gone.yaml"]) == ["E001"]
    assert _codes([tmp_path]) == ["E001"], "an empty directory"
    assert _codes([tmp_path / ("a" * 300)]) == ["E001"], "a name that is too long"
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    assert _codes([tmp_path / "loop.yaml"]) == ["E001"]
    (tmp_path / "held.yaml").mkdir()
    assert _codes([tmp_path]) == ["E001", "E001"], "a directory with a manifest's name is no manifest"


def test_too_much_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_bytes(b"a" * (10 * 1024 * 1024))
    assert _codes([file]) == ["E002"]
    assert _codes(["/dev/zero"]) == ["E002"], "an endless file"


def test_the_limit_holds_for_all_files_together(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.yaml").write_text(SMALL + "#" * (SIZE_LIMIT // 2) + "\n")
    assert _codes([tmp_path]) == ["E002"]
    (tmp_path / "b.yaml").write_text(
        "apiVersion: hetctl/v1\nkind: Cluster\n" + "#" * (SIZE_LIMIT // 3) + "\n"
    )
    load([tmp_path])


def test_too_many_files(tmp_path: Path) -> None:
    for number in range(FILE_LIMIT + 1):
        (tmp_path / f"{number}.yaml").touch()
    assert _codes([tmp_path]) == ["E002"]


def test_a_directory_is_its_yaml_files_sorted(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "c.json", "notes.txt"):
        (tmp_path / name).write_text("x: 1\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.yaml").write_text("x: 1\n")
    names = [Path(file.name).name for file, _ in read([tmp_path]).files]
    assert names == ["a.yaml", "b.yml"]


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(SMALL)
    assert list(load([file, tmp_path, str(file)]).source.digests) == [str(file)]


def test_names_stay_as_the_user_wrote_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cluster.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    assert load(["./cluster.yaml"]).source.position(("name",)).file == "./cluster.yaml"
    assert load(["."]).source.position(("name",)).file == "./cluster.yaml"


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SMALL.encode())))
    monkeypatch.chdir(tmp_path)
    source = load(["-"]).source
    assert source.position(("name",)).file == "<stdin>"
    assert source.directory(("name",)).resolve() == tmp_path


def test_a_pipe() -> None:
    reading, writing = os.pipe()
    os.write(writing, SMALL.encode())
    os.close(writing)
    try:
        assert load([f"/dev/fd/{reading}"]).name == "den"
    finally:
        os.close(reading)
