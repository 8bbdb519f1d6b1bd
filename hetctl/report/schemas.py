"""The JSON schemas of all documents, as they lie in `schemas/`."""

from __future__ import annotations

import json
from typing import Any

from hetctl.report.documents import (
    AnswerDocument,
    ApplyDocument,
    Document,
    ErrorDocument,
    EventDocument,
    GraphDocument,
    LocksDocument,
    LogDocument,
    PlanDocument,
    StatusDocument,
)
from hetctl.report.validation import ValidationDocument

SCHEMAS: dict[str, type[Document]] = {
    "plan": PlanDocument,
    "apply": ApplyDocument,
    "status": StatusDocument,
    "graph": GraphDocument,
    "locks": LocksDocument,
    "answer": AnswerDocument,
    "log": LogDocument,
    "event": EventDocument,
    "error": ErrorDocument,
    "validation": ValidationDocument,
}
"""Name of a schema file in `schemas/` to the document it describes."""


def schema_text(name: str) -> str:
    """Return the JSON schema of a document as it lies in `schemas/`.

    It allows fields it does not know: a newer version may add some, and readers must not stumble over them.
    """
    schema = SCHEMAS[name].model_json_schema(mode="serialization")
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **_open(schema)}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _open(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: _open(value)
            for key, value in schema.items()
            if not (key == "additionalProperties" and value is False)
        }
    return [_open(item) for item in schema] if isinstance(schema, list) else schema
