"""The published JSON Schema of a manifest file, generated from the models.

Draft 2020-12, and nothing in it that draft-07 readers (older editors) would not understand or could not skip.
"""

from __future__ import annotations

import json
from typing import Any

from hetctl.manifest.cluster import ManifestFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"
EXTENSION = "^x-"
"""Keys that are free everywhere."""


def schema_text() -> str:
    """Return the schema as it lies in `schemas/cluster.schema.json`."""
    return json.dumps(cluster_schema(), indent=2, ensure_ascii=False) + "\n"


def cluster_schema() -> dict[str, Any]:
    """Return the JSON Schema for one file of a manifest; descriptions are what editors show on hover."""
    schema = ManifestFile.model_json_schema(by_alias=True)
    definitions = {name: _polished(body) for name, body in sorted(schema.pop("$defs").items())}
    return {
        "$schema": DIALECT,
        "title": "hetctl cluster manifest",
        **_polished(schema),
        "$defs": definitions,
    }


def _polished(given: Any) -> Any:
    """Return pydantic's schema without titles and nulls, with x- keys free and defaults in words."""
    if isinstance(given, list):
        return [_polished(item) for item in given]
    if not isinstance(given, dict):
        return given
    schema = _without_null(given)
    text = schema.pop("defaultText", None)
    default = schema.pop("default", None)
    polished: dict[str, Any] = {
        name: {key: _polished(value) for key, value in body.items()} if _names(name) else _polished(body)
        for name, body in schema.items()
        if not (name == "title" and isinstance(body, str))
    }
    if polished.get("type") == "object":
        _open_extensions(polished)
    if text is not None:
        if "description" in polished and not text.startswith("see "):
            polished["description"] = f"{polished['description']} Default: {text}."
    elif default is not None:
        polished["default"] = list(default) if isinstance(default, tuple) else default
    return polished


def _names(keyword: str) -> bool:
    """Return whether what is below this keyword is a mapping of names, not a schema."""
    return keyword in {"properties", "patternProperties", "$defs"}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Take out the alternative null: in YAML, a key without a value is an error."""
    schema = dict(schema)
    parts = schema.get("anyOf")
    if isinstance(parts, list) and {"type": "null"} in parts:
        parts = [part for part in parts if part != {"type": "null"}]
        del schema["anyOf"]
        schema = {**parts[0], **schema} if len(parts) == 1 else {**schema, "anyOf": parts}
    return schema


def _open_extensions(schema: dict[str, Any]) -> None:
    patterns = schema.setdefault("patternProperties", {})
    if patterns:
        schema["additionalProperties"] = False
    patterns[EXTENSION] = True
