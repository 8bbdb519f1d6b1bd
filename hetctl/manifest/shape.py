"""One document -> what is wrong with its shape (E1xx), in words a person can use.

The models decide; this module turns what pydantic says into problems with a place, the kind of value that was
written, a guess at typos and a fix.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hetctl.errors import Problem
from hetctl.manifest.cluster import ManifestFile
from hetctl.manifest.secrets import SecretRef
from hetctl.manifest.section import ONE_OF, Section
from hetctl.manifest.source import KeyPath, Source
from hetctl.manifest.tree import Items, Keys, Scalar, Tree
from hetctl.manifest.values import FORMAT, NOT_TEXT
from hetctl.manifest.wording import described, guess, listed, named, quoted

KINDS: Final = {
    "nodes": "node",
    "vms": "VM",
    "builds": "build",
    "models": "model",
    "placements": "placement",
    "gateways": "gateway",
}
"""Sections that are maps by name, and what one entry is called."""

GUESSES_LIMIT: Final = 100
"""Typos that get a guess; comparing names is slow, and nobody reads more."""

_WANTED: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "tuple_type": "a list",
}
_TRUTHS: Final = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def check_shape(document: Keys, data: Any, source: Source) -> list[Problem]:
    """Return every E1xx problem of one document.

    Arguments:
        document: The document's tree.
        data: The same as plain data, without x- keys.
        source: Where things stand; holds only this document.
    """
    problems = [
        source.problem(
            "E108",
            f"{subject(path)} has no value",
            path,
            hint="give it one, or remove the key; an empty mapping is written {}",
            key=True,
        )
        for path in _nulls(document)
    ]
    empty = {problem.path for problem in problems}
    try:
        ManifestFile.model_validate(data)
    except ValidationError as error:
        guesses = 0
        for detail in error.errors(include_url=False, include_context=True):
            guesses += detail["type"] == "extra_forbidden"
            path = _path(document, detail["loc"])
            fallen_short = detail["type"] == "too_short" and detail.get(
                "input"
            )  # its items are what is wrong
            if path not in empty and not fallen_short:
                problems.append(_problem(detail, path, source, guessing=guesses <= GUESSES_LIMIT))
    return problems


def subject(path: KeyPath) -> str:
    """Return how a sentence speaks of what is at `path`: `'server.port' of placement 'chat'`."""
    if len(path) > 1 and path[0] in KINDS:
        entry = named(KINDS[str(path[0])], str(path[1]))
        return f"{quoted(_dotted(path[2:]))} of {entry}" if len(path) > 2 else entry  # noqa: PLR2004 - section, name
    return quoted(_dotted(path)) if path else "the manifest"


def _dotted(path: KeyPath) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _nulls(tree: Tree, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(tree, Keys):
        for name, entry in tree.entries.items():
            if not name.startswith("x-"):
                yield from _nulls(entry.value, (*path, name))
    elif isinstance(tree, Items):
        for index, item in enumerate(tree.items):
            yield from _nulls(item, (*path, index))
    elif tree.value is None:
        yield path


def _path(document: Keys, location: tuple[str | int, ...]) -> KeyPath:
    """Take out of pydantic's location what is not in the file: alternatives, wrapped single items."""
    path: list[str | int] = []
    tree: Tree = document
    for step in location:
        if isinstance(tree, Keys) and step in tree.entries:
            tree = tree.entries[str(step)].value
        elif isinstance(tree, Items) and isinstance(step, int) and step < len(tree.items):
            tree = tree.items[step]
        elif step == "[key]" or str(step).startswith("§") or isinstance(step, int):
            continue
        path.append(step)
    return tuple(path)


def _problem(detail: ErrorDetails, path: KeyPath, source: Source, *, guessing: bool) -> Problem:
    kind, value = detail["type"], detail.get("input")
    context = detail.get("ctx", {})
    if detail["loc"] and detail["loc"][-1] == "[key]":
        return source.problem(
            "E109", f"{subject(path)} is no name that can be used here", path,
            hint=f"use {context.get('expected', 'a text that is not empty')}", key=True,
        )  # fmt: skip
    match kind:
        case "extra_forbidden":
            return _unknown_key(path, source, guessing=guessing)
        case "missing":
            parent = path[:-1]
            return source.problem(
                "E102", f"{subject(parent)} needs the key {quoted(str(path[-1]))}", path,
                hint=_missing_hint(path), key=True,
            )  # fmt: skip
        case "greater_than_equal" | "less_than_equal":
            limit, word = (context["ge"], "at least") if "ge" in context else (context["le"], "at most")
            verb = "raise" if "ge" in context else "lower"
            return source.problem(
                "E106", f"{subject(path)} must be {word} {limit}, not {value}", path, hint=f"{verb} it"
            )
        case "too_short" | "string_too_short":
            return source.problem(
                "E107", f"{subject(path)} is empty", path, hint="fill it, or remove the key"
            )
        case _ if kind == ONE_OF:
            return _one_of(path, context, source)
    if isinstance(value, (str, int, float, list)) and SecretRef in _types(path):
        return source.problem(
            "E111", f"{subject(path)} is a secret written out", path,
            hint="refer to it as {env: NAME}, {file: path} or {command: [...]}, and change the secret",
        )  # fmt: skip
    return _wrong_value(detail, path, source, guessing=guessing)


def _unknown_key(path: KeyPath, source: Source, *, guessing: bool) -> Problem:
    parent, name = path[:-1], str(path[-1])
    known = [
        str(field.alias)
        for kind in _types(parent)
        if isinstance(kind, type) and issubclass(kind, Section)
        for field in kind.model_fields.values()
    ]
    hint = guess(name, known) if guessing else ""
    if not hint and known:
        hint = f"known keys: {listed(sorted(known), word='and')}"
    where = f"in {subject(parent)}" if parent else "at the top level"
    return source.problem("E101", f"unknown key {quoted(name)} {where}", path, hint=hint, key=True)


def _missing_hint(path: KeyPath) -> str:
    if path[-1] == "apiVersion":
        return "begin every file with `apiVersion: hetctl/v1`"
    if path[-1] == "kind":
        return "write `kind: Cluster`"
    return f"add `{path[-1]}: …`"


def _one_of(path: KeyPath, context: dict[str, Any], source: Source) -> Problem:
    keys = listed(context["keys"])
    if context["present"]:
        return source.problem(
            "E110", f"{subject(path)} holds {listed(context['present'], word='and')} at once", path,
            hint=f"keep one of {keys}",
        )  # fmt: skip
    return source.problem(
        "E110", f"{subject(path)} holds none of {keys}", path, hint="give exactly one of them"
    )


def _wrong_value(detail: ErrorDetails, path: KeyPath, source: Source, *, guessing: bool) -> Problem:
    kind, value, context = detail["type"], detail.get("input"), detail.get("ctx", {})
    hidden = source.hides(source.span(path))
    written = "what is written" if hidden else described(value)
    tree = source.tree(path)
    text = tree.text if isinstance(tree, Scalar) and not hidden else ""
    if kind == "literal_error":
        allowed = [part.strip("'") for part in str(context["expected"]).replace(" or ", ", ").split(", ")]
        if path in {("apiVersion",), ("kind",)}:
            return source.problem(
                "E112",
                f"{subject(path)} must be {allowed[0]}, not {written}",
                path,
                hint=f"write `{path[0]}: {allowed[0]}`",
            )
        allowed += _other_forms(path)
        hint = "use one of these"
        if isinstance(value, bool) and "on" in allowed:
            hint = f"write {'on' if value else 'off'}"
        elif isinstance(value, str) and "a list" in allowed:
            hint = f"write it as a list: [{text}]"
        elif isinstance(value, str) and guessing:
            hint = guess(value, allowed) or hint
        return source.problem(
            "E104", f"{subject(path)} must be {listed(allowed)}, not {written}", path, hint=hint
        )
    if kind in {FORMAT, NOT_TEXT}:
        code = "E105" if kind == FORMAT else "E103"
        hint = str(context.get("hint", "")) or _quote_hint(value, text)
        return source.problem(
            code, f"{subject(path)} must be {context['expected']}, not {written}", path, hint=hint
        )
    wanted = _WANTED.get(kind, detail["msg"])
    return source.problem(
        "E103", f"{subject(path)} must be {wanted}, not {written}", path, hint=_type_hint(kind, value, text)
    )


def _other_forms(path: KeyPath) -> list[str]:
    """Return what a key takes besides words."""
    origins = {get_origin(kind) or kind for kind in _types(path)}
    forms = {tuple: "a list", dict: "a mapping", int: "a whole number"}
    return [word for kind, word in forms.items() if kind in origins]


def _quote_hint(value: Any, text: str) -> str:
    return f'quote it: "{text}"' if isinstance(value, (bool, int, float)) and text else ""


def _type_hint(kind: str, value: Any, text: str) -> str:
    match kind, value:
        case "string_type", _:
            return _quote_hint(value, text) or "write text"
        case "bool_type", str() if value.lower() in _TRUTHS:
            return f"YAML 1.2 takes {value} as text: write {_TRUTHS[value.lower()]}"
        case "int_type", str() if value.isascii() and value.isdigit():
            return "remove the quotes"
        case "int_type", str() | float():
            return "write the number out, without unit or fraction"
        case "tuple_type", str() | int() if text:
            return f"write it as a list: [{text}]"
        case (("dict_type" | "model_type"), list()):
            return "write `name: …` pairs instead of a list"
        case (("dict_type" | "model_type"), _):
            return "write keys and values: {key: value}"
    return f"write {_WANTED.get(kind, 'something else')}"


def _types(path: KeyPath) -> list[Any]:
    """Return the classes that the models have at `path`, alternatives side by side."""
    found: list[Any] = [ManifestFile]
    for step in path:
        found = [below for kind in found for below in _below(kind, step)]
    return found


def _below(kind: Any, step: str | int) -> list[Any]:
    if isinstance(kind, type) and issubclass(kind, Section):
        for field in kind.model_fields.values():
            if field.alias == step:
                return list(_alternatives(field.annotation))
        return []
    arguments = get_args(kind)
    if get_origin(kind) is dict and isinstance(step, str):
        return list(_alternatives(arguments[1]))
    if get_origin(kind) is tuple and isinstance(step, int):
        return list(_alternatives(arguments[0]))
    return []


def _alternatives(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in {Union, UnionType}:
        for part in get_args(annotation):
            yield from _alternatives(part)
    elif annotation is not NoneType:
        yield annotation
        if origin is tuple:  # a list of sections that may also be written as a single one
            yield from (
                kind
                for kind in _alternatives(get_args(annotation)[0])
                if isinstance(kind, type) and issubclass(kind, Section)
            )
