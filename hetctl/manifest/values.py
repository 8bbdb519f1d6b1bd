"""Typed scalars of the manifest: sizes, times, watts, names, paths.

Each type holds its pattern once: the models, the JSON Schema and the error text use the same one. A value is
kept in its base unit (bytes, seconds, watts), so nothing behind the manifest parses units again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

FORMAT = "§format"
"""Error type of a text that does not have the form its key asks for; `ctx` holds `expected` and `hint`."""

NOT_TEXT = "§not-text"
"""Error type of another kind of value where a text with a form was asked for."""

_SIZE_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_TIME_UNITS = {"s": 1, "m": 60, "h": 3600}

SIZE_PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,3})?(KiB|MiB|GiB|TiB)$"
TIME_PATTERN = r"^[1-9][0-9]{0,6}(s|m|h)$"
WATTS_PATTERN = r"^[1-9][0-9]{0,5}W$"


def fits(text: str, pattern: str) -> bool:
    """Return whether all of `text` has the form `pattern`, as a JSON Schema validator would see it."""
    return re.fullmatch(pattern.removeprefix("^").removesuffix("$"), text) is not None


def reject(value: Any, expected: str, hint: str = "") -> PydanticCustomError:
    """Return the error for a value that is not what was expected, for a validator to raise.

    Arguments:
        value: What was written.
        expected: What belongs there, to follow "must be".
        hint: How to mend it.
    """
    kind = FORMAT if isinstance(value, str) else NOT_TEXT
    return PydanticCustomError(kind, "expected {expected}", {"expected": expected, "hint": hint})


def size(value: Any) -> int:
    """Turn `16GiB` into bytes; only binary units, so that nobody has to guess what a GB is."""
    expected = "a size in KiB, MiB, GiB or TiB"
    if isinstance(value, str) and fits(value, SIZE_PATTERN):
        return int(Decimal(value[:-3]) * _SIZE_UNITS[value[-3:]])
    hint = "for example 16GiB or 512MiB"
    if isinstance(value, str) and (near := re.fullmatch(r"([0-9.]+)\s*([kKmMgGtT])(i?[bB])?", value.strip())):
        hint = f"write {near[1]}{near[2].upper()}iB: units are powers of 1024"
    elif isinstance(value, int) and not isinstance(value, bool):
        hint = f"give it a unit, such as {value}GiB"
    raise reject(value, expected, hint)


def _seconds(value: Any) -> int:
    """Turn `10m` into seconds."""
    if isinstance(value, str) and fits(value, TIME_PATTERN):
        return int(value[:-1]) * _TIME_UNITS[value[-1]]
    hint = "for example 90s, 10m or 1h"
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        hint = f"give it a unit, such as {value}s"
    raise reject(value, "a time in s, m or h", hint)


def _watts(value: Any) -> int:
    """Turn `180W` into watts."""
    if isinstance(value, str) and fits(value, WATTS_PATTERN):
        return int(value[:-1])
    hint = "for example 180W"
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        hint = f"write {value}W"
    raise reject(value, "a power in W", hint)


def _integral(value: Any) -> Any:
    """Take 8080.0 for 8080, as JSON Schema does."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


@dataclass(frozen=True, slots=True)
class Form:
    """Asks a text to have a form, in the models as in the JSON Schema.

    Arguments:
        pattern: Regular expression, anchored at both ends.
        expected: The form in words, to follow "must be".
        hint: An example, or where to find the value.
    """

    pattern: str
    expected: str
    hint: str

    def check(self, value: str) -> str:
        """Return `value` if it has the form."""
        if not fits(value, self.pattern):
            raise reject(value, self.expected, self.hint)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "pattern": self.pattern}


Size = Annotated[int, BeforeValidator(size), WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN})]
"""Bytes, written with a binary unit."""

Seconds = Annotated[
    int, BeforeValidator(_seconds), WithJsonSchema({"type": "string", "pattern": TIME_PATTERN})
]
"""Seconds, written with a unit."""

Watts = Annotated[int, BeforeValidator(_watts), WithJsonSchema({"type": "string", "pattern": WATTS_PATTERN})]
"""Watts, written with their unit."""

Count = Annotated[int, Field(ge=0, le=2**31 - 1), BeforeValidator(_integral)]
"""0 or more; llama.cpp keeps such numbers in 32 bits."""

Positive = Annotated[int, Field(ge=1, le=2**31 - 1), BeforeValidator(_integral)]
"""1 or more."""

Port = Annotated[int, Field(ge=1, le=65535), BeforeValidator(_integral)]
"""A TCP port."""

LINE_PATTERN = r"^[^\x00-\x1f\x7f]*$"
ALIAS_PATTERN = r"^[^,\x00-\x1f\x7f]+$"
LINE_FORM = "one line of text without control characters"

Line = Annotated[str, Form(LINE_PATTERN, LINE_FORM, "no reader of unit files takes line breaks and tabs")]
"""Text that becomes an argument, a variable or a path."""

Text = Annotated[Line, Field(min_length=1)]
"""As `Line`, but not empty."""

Prose = Annotated[str, Field(min_length=1)]
"""Text of any kind: it is shown or sent, never written where another program would parse it."""

Alias = Annotated[str, Form(ALIAS_PATTERN, "a name without commas", "llama-server takes a list of names")]
"""The name of a model in the API."""

NAME_FORM = "a name of lower-case letters, digits and hyphens (at most 40, not beginning with x-)"
NAME_PATTERN = r"^(?!x-)[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$"
LABEL_FORM = "a name of letters, digits, dots, underscores and hyphens (at most 64, not beginning with x-)"
LABEL_PATTERN = r"^(?!x-)[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$"
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
VERSION_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$"
ABSOLUTE_PATTERN = r"^(?!.*/\.{1,2}(?:/|$))(?=.*[^/])/[^\x24\x00-\x1f\x7f]+$"
HEX_PATTERN = r"^[0-9a-fA-F]{7,64}$"
SHA256_PATTERN = r"^[0-9a-fA-F]{64}$"
UUID_PATTERN = r"^(GPU-)?[0-9A-Fa-f][0-9A-Fa-f-]{7,39}$"
PCI_PATTERN = r"^([0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$"
ARCHITECTURE_PATTERN = r"^[0-9]{2,3}[a-z]?(-real|-virtual)?$"
API_VERSION = "hetctl/v1"

Name = Annotated[str, Form(NAME_PATTERN, NAME_FORM, "for example atlas-2")]
"""Names that become part of unit names, host names and resource addresses."""

Label = Annotated[str, Form(LABEL_PATTERN, LABEL_FORM, "for example Qwen3-0.6B")]
"""Names of builds and models, which like to carry versions: Qwen3-0.6B, b11434."""

Variable = Annotated[
    str, Form(VARIABLE_PATTERN, "a variable's name", "letters, digits and underscores, such as CHAT_KEY")
]
"""An environment variable or CMake option."""

Version = Annotated[str, Form(VERSION_PATTERN, "a version without spaces", "for example b11434")]
AbsolutePath = Annotated[
    str,
    Form(
        ABSOLUTE_PATTERN,
        "an absolute path below / without `..`, `$` and control characters",
        "for example /data/models",
    ),
]
Commit = Annotated[
    str, Form(HEX_PATTERN, "7 to 64 hexadecimal digits", "git rev-parse prints it"), AfterValidator(str.lower)
]
Sha256 = Annotated[
    str, Form(SHA256_PATTERN, "64 hexadecimal digits", "sha256sum prints them"), AfterValidator(str.lower)
]
Uuid = Annotated[str, Form(UUID_PATTERN, "a GPU's UUID", "nvidia-smi -L prints it")]


def _pci(value: str) -> str:
    """Bring a PCI address into the kernel's form, 0000:02:00.0; NVML gives eight digits of domain."""
    if not fits(value, PCI_PATTERN):
        raise reject(value, "a PCI address", "for example 0000:02:00.0; lspci -D prints it")
    domain, bus, rest = ("0000:" + value if value.count(":") == 1 else value).lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{rest}"


Pci = Annotated[str, AfterValidator(_pci), WithJsonSchema({"type": "string", "pattern": PCI_PATTERN})]
"""A PCI address, kept in the form the kernel uses."""


def _option(value: Any) -> str:
    """Take the value of a CMake option as text: `true` is ON, numbers are their digits."""
    value = _integral(value)
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return value
    raise reject(value, "text, a whole number, true or false", "quote it")


Option = Annotated[str, BeforeValidator(_option), WithJsonSchema({"type": ["string", "boolean", "integer"]})]
"""The value of a CMake option."""


def _architecture(value: Any) -> str:
    """Take 61 for "61"."""
    value = _integral(value)
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(text, str) and fits(text, ARCHITECTURE_PATTERN):
        return text
    raise reject(value, "a CUDA architecture", "for example 61 or 120a")


Architecture = Annotated[
    str,
    BeforeValidator(_architecture),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": ARCHITECTURE_PATTERN},
                {"type": "integer", "minimum": 10, "maximum": 999},
            ]
        }
    ),
]
"""A CUDA compute capability without its dot, as CMake takes it."""
