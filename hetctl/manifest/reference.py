"""The manifest's reference pages, written from the models and the tables of codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from hetctl.manifest.availability import ANY, AUTO_DEVICES, RESERVED
from hetctl.manifest.cluster import ManifestFile
from hetctl.manifest.codes import CODES, EXAMPLE_BASE
from hetctl.manifest.schema import EXTENSION, cluster_schema
from hetctl.manifest.section import Section
from hetctl.manifest.values import (
    ABSOLUTE_PATTERN,
    ALIAS_PATTERN,
    ARCHITECTURE_PATTERN,
    HEX_PATTERN,
    LABEL_PATTERN,
    LINE_PATTERN,
    NAME_PATTERN,
    PCI_PATTERN,
    SHA256_PATTERN,
    SIZE_PATTERN,
    TIME_PATTERN,
    UUID_PATTERN,
    VARIABLE_PATTERN,
    VERSION_PATTERN,
    WATTS_PATTERN,
)

_FORMS: Final = {
    ABSOLUTE_PATTERN: "absolute path",
    ALIAS_PATTERN: "text without commas",
    LINE_PATTERN: "text",
    ARCHITECTURE_PATTERN: "text such as 120a",
    HEX_PATTERN: "7 to 64 hex digits",
    LABEL_PATTERN: "label",
    NAME_PATTERN: "name",
    PCI_PATTERN: "PCI address",
    SHA256_PATTERN: "64 hex digits",
    SIZE_PATTERN: "size",
    TIME_PATTERN: "time",
    UUID_PATTERN: "UUID",
    VARIABLE_PATTERN: "variable",
    VERSION_PATTERN: "version",
    WATTS_PATTERN: "watts",
}

_REFERENCE_HEAD: Final = """\
# The manifest

Every key, what it takes and what it is when it is absent. Written from the models by
`hetctl schema reference`; editors get the same from `schemas/cluster.schema.json` through the first line of
each example.

- A manifest is one or more YAML 1.2 files. A directory stands for its `*.yaml` and `*.yml`, not recursive,
  sorted; several documents in a file count as several files. All of them together may have 256 KiB.
- A name declared twice is an error. `name`, `ssh` and the other keys that are not maps by name stand in one
  file.
- Relative paths are relative to the file they stand in.
- An unknown key is an error. Keys that begin with `x-` are free everywhere. Anchors and merge keys (`<<`)
  work within a document.
- *name*: lower-case letters, digits, hyphens, at most 40. *label*: also capitals, dots and underscores, at
  most 64. *size*: 512MiB, 16GiB, 1.5TiB. *time*: 90s, 10m, 1h. *watts*: 180W.
- YAML 1.2 reads `1.10` as a number and `0644` as 644: quote them where text is meant. `on`, `off`, `yes` and
  `no` are text.

"""

_ERRORS_HEAD: Final = """\
# Errors of the manifest

Every code `hetctl validate` may print. Codes are stable. `hetctl schema errors` writes this page.

E0xx: the file as YAML. E1xx: the shape; the published JSON Schema says the same. E2xx: what the parts say of
each other. W3xx: warnings, which stop nothing. E9xx: not available yet.

Examples of E1xx and E2xx are fragments; the rest of the manifest is

"""


def manifest_reference() -> str:
    """Return docs/manifest.md: a table for every section, with a default for every key."""
    schema = cluster_schema()
    models = {model.__name__: model for model, _ in _sections()}
    places: dict[str, list[tuple[str, ...]]] = {}
    for model, path in _sections():
        places.setdefault(model.__name__, []).append(path)
    text = _REFERENCE_HEAD
    for name, model in models.items():
        body = schema if model is ManifestFile else schema["$defs"][name]
        text += f"## {_title(name)}\n\n"
        where = " · ".join(f"`{'.'.join(path)}`" for path in places[name] if path)
        text += f"{where}\n\n" if where else ""
        text += f"{(model.__doc__ or '').strip()}\n\n"
        text += "| key | takes | default | meaning |\n|---|---|---|---|\n"
        for field_name, field in model.model_fields.items():
            alias = str(field.alias or field_name)
            row = [
                f"`{alias}`",
                _takes(body["properties"][alias]),
                _default(field, body["properties"][alias]),
                (field.description or "") + _reserved([(*path, alias) for path in places[name]]),
            ]
            text += "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"
        text += "\n"
    return text.rstrip() + "\n"


def error_reference() -> str:
    """Return docs/manifest-errors.md: every code with its meaning, an example and the fix."""
    text = f"{_ERRORS_HEAD}```yaml\n{EXAMPLE_BASE}```\n\n"
    for code, entry in CODES.items():
        text += f"## {code}: {entry.title}\n\n{entry.meaning}\n\n"
        if entry.example:
            text += f"```yaml\n{_shortened(entry.example)}```\n\n"
        text += f"{entry.fix}\n\n"
    text += "## E9xx: not available yet\n\n| code | key | what | what to do now |\n|---|---|---|---|\n"
    for row in sorted(RESERVED, key=lambda row: row.code):
        text += f"| {row.code} | `{'.'.join(row.pattern)}` | {row.what} not available yet | {row.instead} |\n"
    text += (
        f"| {AUTO_DEVICES} | `placements.{ANY}.devices` | `auto` with several machines is not available yet"
        " | list the devices |\n"
    )
    return text


def _shortened(example: str) -> str:
    lines = (line if len(line) <= 120 else f"{line[:60]} … {line[-20:]}" for line in example.splitlines())  # noqa: PLR2004 - fits a page
    return "".join(f"{line}\n" for line in lines).replace("\x07", "␇")


def _sections() -> Iterator[tuple[type[Section], tuple[str, ...]]]:
    """Yield every section with each place it stands at, a section before what is in it."""
    queue: list[tuple[type[Section], tuple[str, ...]]] = [(ManifestFile, ())]
    while queue:
        model, path = queue.pop(0)
        yield model, path
        queue += [
            (below, where)
            for name, field in model.model_fields.items()
            for below, where in _below(field.annotation, (*path, str(field.alias or name)))
        ]


def _below(annotation: Any, path: tuple[str, ...]) -> Iterator[tuple[type[Section], tuple[str, ...]]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation, path
        return
    arguments = getattr(annotation, "__args__", ())
    origin = getattr(annotation, "__origin__", None)
    deeper = (*path, ANY) if origin is dict or (origin is tuple and path[-1] != "source") else path
    for argument in arguments:
        yield from _below(argument, deeper)


def _title(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return "File" if name == ManifestFile.__name__ else words


def _takes(schema: dict[str, Any]) -> str:
    """Return in a few words what a key takes."""
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return " or ".join(_takes(part) for part in schema[keyword])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{_title(name)}](#{_title(name).lower().replace(' ', '-')})"
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if "pattern" in schema:
        return _FORMS[schema["pattern"]]
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return "text, number, true or false"
    if kind == "object":
        return _takes_map(schema)
    if kind == "array":
        return f"list of {_takes(schema['items'])}"
    if kind in {"integer", "number"}:
        return _takes_number(schema)
    return {"boolean": "true or false", "string": "text"}.get(kind, str(kind))


def _takes_map(schema: dict[str, Any]) -> str:
    for pattern, body in schema.get("patternProperties", {}).items():
        if pattern != EXTENSION:
            return f"map of {_FORMS[pattern]} to {_takes(body)}"
    return f"map of device to {_takes(schema['additionalProperties'])}"


def _takes_number(schema: dict[str, Any]) -> str:
    word = "whole number" if schema["type"] == "integer" else "number"
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is None or high == 2**31 - 1:
        return f"{word} from {low}"
    return f"{word} from {low} to {high}"


def _default(field: Any, schema: dict[str, Any]) -> str:
    if field.is_required():
        return "**required**"
    shown = (field.json_schema_extra or {}).get("defaultText")
    if shown:
        return str(shown)
    value = schema["default"]
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`"


def _reserved(paths: list[tuple[str, ...]]) -> str:
    codes = dict.fromkeys(
        row.code for row in RESERVED for path in paths if row.pattern in (path, (*path, ANY))
    )
    return f" *Not available yet, or not all of it: {', '.join(codes)}.*" if codes else ""
