"""What every part of the manifest has in common: strict, frozen, camelCase in YAML, documented key by key."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, Tag
from pydantic.alias_generators import to_camel
from pydantic.types import Discriminator

ONE_OF = "§one-of"
"""Error type of a section that holds none or several of its alternatives."""

WORD, MAP, LIST, NUMBER = (Tag(f"§{name}") for name in ("word", "map", "list", "number"))
"""Which of several forms a value was written in. The sign keeps them apart from every legal key."""


def _form(value: Any) -> str:
    if isinstance(value, (dict, BaseModel)):
        return MAP.tag
    if isinstance(value, (list, tuple)):
        return LIST.tag
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return NUMBER.tag
    return WORD.tag


by_form = Discriminator(_form)
"""Picks among alternatives by the form of the value, so that an error speaks of the form that was meant."""


def key(default: Any = ..., description: str = "", *, shown: str = "", alias: str | None = None) -> Any:
    """Declare a key of the manifest.

    Arguments:
        default: Value when the key is absent; `...` for a key that must be there.
        description: One or two sentences: hover text of editors and text of the reference.
        shown: The default as a person would put it, where it is computed or its value says little.
        alias: Name in YAML, where it is not the camelCase form of the attribute.

    Returns:
        What pydantic expects as the value of a field.
    """
    extra = {"defaultText": shown} if shown else None
    return Field(default, description=description, json_schema_extra=extra, alias=alias)


class Section(BaseModel):
    """A mapping of the manifest with known keys.

    `one_of` names keys (as in YAML) of which exactly one must be present; empty when there is no such rule.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        strict=True,
    )

    one_of: ClassVar[tuple[str, ...]] = ()
