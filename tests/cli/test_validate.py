import io
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from hetctl.cli.main import run
from hetctl.cli.surroundings import Surroundings
from hetctl.errors import ExitCode
from hetctl.manifest.codes import EXAMPLE_BASE
from hetctl.report.console import Console

ROOT = Path(__file__).parents[2]


def _run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()

    def load(*_: object) -> object:
        pytest.fail("validate contacts nobody")

    console = Console(io.StringIO(), out, err, {})
    code = run(arguments, Surroundings(console, load))  # type: ignore[arg-type] # it never returns
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("llama.cpp.tar.gz", "gemma.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    file = tmp_path / "cluster.yaml"
    file.write_text(
        EXAMPLE_BASE.replace("atlas/fast, bench/left]", "bench/left], server: {listen: [127.0.0.1]}")
    )
    return file


def _break(manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace("name: den", "nam: den"))


@pytest.mark.usefixtures("manifest")
def test_a_valid_manifest() -> None:
    code, out, err = _run("validate")
    assert (code, err) == (0, "")
    assert out == "cluster.yaml is valid: cluster den, 2 machines and 1 placement.\n"


def test_problems_are_the_result(manifest: Path) -> None:
    _break(manifest)
    code, out, err = _run("validate", "cluster.yaml")
    assert (code, err) == (ExitCode.MANIFEST_INVALID, "")
    assert "cluster.yaml:3:1: E101 unknown key 'nam' at the top level" in out
    assert "^^^ did you mean 'name'?" in out


def test_warnings_stand_aside(manifest: Path) -> None:
    (manifest.parent / "gemma.gguf").unlink()
    code, out, err = _run("validate")
    assert code == 0
    assert "is valid" in out
    assert "W301" in err


def _document(*arguments: str) -> tuple[int, dict[str, object]]:
    code, out, err = _run("validate", "-o", "json", *arguments)
    assert err == ""
    document = json.loads(out)
    schema = json.loads((ROOT / "schemas" / "validation.schema.json").read_text())
    Draft202012Validator(schema).validate(document)
    return code, document


def test_the_document_of_a_valid_manifest(manifest: Path) -> None:
    (manifest.parent / "gemma.gguf").unlink()
    code, document = _document()
    assert (code, document["formatVersion"], document["valid"], document["problems"]) == (0, 1, True, [])
    assert document["warnings"]


def test_the_document_of_a_wrong_one(manifest: Path) -> None:
    _break(manifest)
    code, document = _document("cluster.yaml")
    assert (code, document["valid"]) == (3, False)
    assert {
        "code": "E101",
        "message": "unknown key 'nam' at the top level",
        "position": {"file": "cluster.yaml", "line": 3, "column": 1},
        "width": 3,
        "sourceLine": "nam: den",
        "hint": "did you mean 'name'?",
        "path": ["nam"],
    } in document["problems"]  # type: ignore[operator] # a list, as the schema says


def test_annotations(manifest: Path) -> None:
    _break(manifest)
    code, out, _ = _run("validate", "--format", "github")
    assert code == 3
    assert "::error file=cluster.yaml,line=3,col=1,endColumn=3,title=E101::" in out


def test_several_files_and_directories(manifest: Path) -> None:
    directory = manifest.parent / "more"
    directory.mkdir()
    (directory / "a.yaml").write_text(
        "apiVersion: hetctl/v1\nkind: Cluster\nnodes: {c: {address: 10.0.0.9}}\n"
    )
    code, out, _ = _run("validate", "cluster.yaml", "more")
    assert code == 0
    assert "3 machines" in out


def test_a_manifest_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = _run("validate")
    assert (code, out) == (ExitCode.USAGE, "")
    assert "there is no such manifest" in err
    assert _run("validate", "a" * 5000)[0] == ExitCode.USAGE


@pytest.mark.parametrize("name", ["cluster", "validation", "plan", "reference", "errors"])
def test_schemas_and_pages_are_printed(name: str) -> None:
    code, out, err = _run("schema", name)
    assert (code, err) == (0, "")
    files = {"reference": "docs/manifest.md", "errors": "docs/manifest-errors.md"}
    if name != "plan":  # the other documents' schemas are tested where they are made
        path = ROOT / files.get(name, f"schemas/{name}.schema.json")
        assert path.read_text(encoding="utf-8") == out
