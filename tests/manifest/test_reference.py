from pathlib import Path

import pytest

from hetctl.manifest.codes import CODES
from hetctl.manifest.reference import error_reference, manifest_reference
from hetctl.manifest.schema import cluster_schema

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("page", "text", "name"),
    [
        ("docs/manifest.md", manifest_reference(), "reference"),
        ("docs/manifest-errors.md", error_reference(), "errors"),
    ],
)
def test_the_pages_are_current(page: str, text: str, name: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == text, f"run: hetctl schema {name} > {page}"


def _rows() -> list[list[str]]:
    lines = [line for line in manifest_reference().splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")] for line in lines]


def test_every_key_has_a_default_and_a_meaning() -> None:
    for key, takes, default, meaning in _rows():
        assert takes, key
        assert default, key
        assert "None" not in default, key
        assert "{}" not in default, key
        assert meaning, key


def test_every_key_of_the_schema_is_on_the_page() -> None:
    schema = cluster_schema()
    keys = [name for body in (schema, *schema["$defs"].values()) for name in body["properties"]]
    assert sorted(f"`{name}`" for name in keys) == sorted(row[0] for row in _rows())


def test_links_lead_somewhere() -> None:
    text = manifest_reference()
    headings = {line[3:].lower().replace(" ", "-") for line in text.splitlines() if line.startswith("## ")}
    links = {part.partition(")")[0] for part in text.split("](#")[1:]}
    assert links <= headings


def test_every_code_has_a_heading() -> None:
    text = error_reference()
    assert all(f"## {code}: " in text for code in CODES)
