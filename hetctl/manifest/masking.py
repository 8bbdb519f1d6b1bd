"""Finds secrets that somebody wrote into a manifest, so that no message and no log repeats them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hetctl.manifest.tree import Items, Keys, Scalar, Span, Tree
from hetctl.manifest.values import VARIABLE_PATTERN, fits

_SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSW", re.IGNORECASE)
_SECRET_FLAGS = frozenset({"--api-key", "--hf-token", "-hft"})
_NEARBY = re.compile(r"apiKeys|api-key|hf-token|-hft\b|KEY|TOKEN|SECRET|PASSW")
_LINES_BEFORE = 5


def may_hold_secret(span: Span) -> bool:
    """Return whether the line of `span` may hold a secret, where the file could not be read as YAML."""
    lines = span.file.lines[max(span.line - 1 - _LINES_BEFORE, 0) : span.line]
    return any(_NEARBY.search(line) for line in lines)


def secret_spans(tree: Tree, *, inside: str = "") -> Iterator[Span]:
    """Yield the places of values that look like a secret written out where a reference belongs."""
    if isinstance(tree, Keys):
        for name, entry in tree.entries.items():
            below = name if name in {"apiKeys", "env", "args"} else inside
            if inside == "env" and not _SECRET_VARIABLE.search(name):
                below = ""
            if inside == "apiKeys" and name in {"env", "file", "command"}:
                below = "" if name != "env" else "apiKeys.env"
            yield from secret_spans(entry.value, inside=below)
    elif isinstance(tree, Items):
        previous = ""
        for item in tree.items:
            text = item.text if isinstance(item, Scalar) else ""
            flag, _, value = text.partition("=")
            if inside == "args" and (previous in _SECRET_FLAGS or (flag in _SECRET_FLAGS and value)):
                yield item.span
            elif inside != "args":
                yield from secret_spans(item, inside=inside)
            previous = text
    elif inside in {"apiKeys", "env"} or (inside == "apiKeys.env" and not fits(tree.text, VARIABLE_PATTERN)):
        yield tree.span
