"""What every part of the manifest has in common: strict, frozen, camelCase in YAML, documented key by key."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, Tag, model_validator
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict
from pydantic.json_schema import JsonSchemaValue
from pydantic.types import Discriminator
from pydantic_core import CoreSchema, PydanticCustomError

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


def _by_form(*forms: Tag) -> Discriminator:
    """Pick among alternatives by the form of the value, so that an error speaks of the one that was meant.

    Arguments:
        forms: The tags of the alternatives; a value of another form counts as the first.
    """
    tags = {form.tag for form in forms}
    return Discriminator(lambda value: form if (form := _form(value)) in tags else forms[0].tag)


WORD_OR_MAP, WORD_OR_LIST = _by_form(WORD, MAP), _by_form(WORD, LIST)
WORD_NUMBER_OR_MAP = _by_form(WORD, NUMBER, MAP)


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
    extra: JsonDict | None = {"defaultText": shown} if shown else None
    nested = isinstance(
        default, dict
    )  # turned into a section: making one here would cost its validator's time
    return Field(
        default, description=description, json_schema_extra=extra, alias=alias, validate_default=nested
    )


class Section(BaseModel):
    """A mapping of the manifest with known keys.

    `one_of` names keys (as in YAML) of which exactly one must be present; empty when there is no such rule.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        defer_build=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        strict=True,
    )

    one_of: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if self.one_of:
            present = [name for name in self.one_of if getattr(self, name) is not None]
            if len(present) != 1:
                raise PydanticCustomError(ONE_OF, "exactly one", {"present": present, "keys": self.one_of})
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add to pydantic's schema what it cannot know: exactly-one-of."""
        schema = handler(core_schema)
        if cls.one_of:
            handler.resolve_ref_schema(schema)["oneOf"] = [{"required": [name]} for name in cls.one_of]
        return schema
