import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator, ValidationError, validators

from hetctl.manifest.parser import parse
from hetctl.manifest.reader import decode
from hetctl.manifest.schema import cluster_schema, schema_text
from hetctl.manifest.shape import check_shape
from hetctl.manifest.source import Source
from hetctl.manifest.tree import Keys, plain
from tests.manifest.corpus import BAD, CASES

ROOT = Path(__file__).parents[2]
SCHEMA = cluster_schema()
FILES = [*BAD, *sorted((CASES / "good").rglob("*.y*ml")), *sorted((ROOT / "examples").glob("*.yaml"))]


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    # ECMA's $ is the end of the text; Python's also matches before a last line feed.
    if isinstance(instance, str) and not re.search(pattern.replace("$", r"\Z"), instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


VALIDATOR = validators.extend(  # type: ignore[no-untyped-call] # the stubs leave it out
    Draft202012Validator, {"pattern": _pattern}
)(SCHEMA)


def _documents(path: Path) -> list[Keys]:
    decoded = decode(str(path), path.read_bytes())
    assert isinstance(decoded, tuple) or path.stem.startswith("yaml-")
    return list(parse(*decoded).documents) if isinstance(decoded, tuple) else []


def _agree(document: Keys) -> None:
    ours = check_shape(document, plain(document, extensions=False), Source([document]))
    theirs = [error.message for error in VALIDATOR.iter_errors(plain(document))]
    assert bool(ours) == bool(theirs), f"models: {ours}\nschema: {theirs}"


def test_the_published_schema_is_current() -> None:
    published = (ROOT / "schemas" / "cluster.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "run: hetctl schema cluster > schemas/cluster.schema.json"


def test_it_is_a_schema_for_new_and_old_editors() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    Draft7Validator.check_schema({**SCHEMA, "$schema": "http://json-schema.org/draft-07/schema#"})
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def _keywords(schema: Any, *, names: bool = False) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _keywords(item)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if not names:
                yield key
            yield from _keywords(
                value, names=not names and key in {"properties", "patternProperties", "$defs"}
            )


def test_it_keeps_to_what_draft_07_knows() -> None:
    known = {
        "$schema", "$defs", "$ref", "title", "description", "default", "type", "enum", "const", "pattern",
        "minimum", "maximum", "minLength", "minItems", "minProperties", "items", "properties",
        "patternProperties", "additionalProperties", "propertyNames", "required", "oneOf", "anyOf",
    }  # fmt: skip
    assert set(_keywords(SCHEMA)) <= known


def test_every_key_has_a_text_for_editors() -> None:
    for definition in (SCHEMA, *SCHEMA["$defs"].values()):
        for name, body in definition["properties"].items():
            assert "description" in body or "$ref" in body, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_models_and_schema_agree(path: Path) -> None:
    for document in _documents(path):
        _agree(document)


def _everything() -> Any:
    (document,) = _documents(CASES / "good" / "everything-that-works.yaml")
    return plain(document)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False, width=16)
    | st.sampled_from(
        ["", "auto", "on", "16GiB", "10m", "180W", "x", "X_1", "x-a", "0000:02:00.0", "61", "a\n"]
    )
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x-a", "env", "file", "model", "a", "A", ""]), inner, max_size=3)
    ),
    max_leaves=4,
)


def _places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield from _places(data[key], (*path, key))


EVERYTHING = _everything()
PLACES = [path for path in _places(EVERYTHING) if path]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from("sdr"), VALUES), min_size=1, max_size=2))
def test_they_agree_on_mutations(mutations: list[tuple[tuple[Any, ...], str, Any]]) -> None:
    data = json.loads(json.dumps(EVERYTHING))
    for path, how, value in mutations:
        parent = data
        try:
            for step in path[:-1]:
                parent = parent[step]
            if how == "s":
                parent[path[-1]] = value
            elif how == "d":
                del parent[path[-1]]
            elif isinstance(parent, dict):
                parent[str(value)[:8]] = parent.pop(path[-1])
        except (KeyError, IndexError, TypeError):
            continue
    text = json.dumps(data)
    decoded = decode("mutated.yaml", text.encode())
    assert isinstance(decoded, tuple)
    parsed = parse(*decoded)
    if parsed.complete and not parsed.problems:
        _agree(parsed.documents[0])
