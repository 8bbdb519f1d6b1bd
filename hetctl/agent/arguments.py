"""Typed access to the arguments of a request."""

from __future__ import annotations

from typing import Any

from hetctl.agent.failures import bad_request

Arguments = dict[str, Any]

_REQUIRED: Any = object()


def _take(arguments: Arguments, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
    value = arguments.get(name, default)
    if value is _REQUIRED:
        raise bad_request(f"the argument {name!r} is missing")
    if value is default:
        return value
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise bad_request(f"the argument {name!r} has the wrong type: {type(value).__name__}")
    return value


def text(arguments: Arguments, name: str, default: Any = _REQUIRED) -> str:
    """Return a string argument."""
    value: str = _take(arguments, name, str, default)
    return value


def optional_text(arguments: Arguments, name: str) -> str | None:
    """Return a string argument that may be absent or null."""
    return None if arguments.get(name) is None else text(arguments, name)


def integer(arguments: Arguments, name: str, default: Any = _REQUIRED) -> int:
    """Return an integer argument."""
    value: int = _take(arguments, name, int, default)
    return value


def number(arguments: Arguments, name: str, default: Any = _REQUIRED) -> float:
    """Return a number."""
    return float(_take(arguments, name, (int, float), default))


def flag(arguments: Arguments, name: str, *, default: bool = False) -> bool:
    """Return a boolean argument."""
    value: bool = _take(arguments, name, bool, default)
    return value


def mode(arguments: Arguments, name: str = "mode", default: Any = _REQUIRED) -> int:
    """Return a file mode, given as an integer or in octal digits ("0644")."""
    value = _take(arguments, name, (int, str), default)
    try:
        bits = int(value, 8) if isinstance(value, str) else int(value)
    except ValueError:
        bits = -1
    if not 0 <= bits <= 0o7777:  # noqa: PLR2004 - the twelve permission bits
        raise bad_request(f"not a file mode: {value!r}")
    return bits


def table(arguments: Arguments, name: str, default: Any = _REQUIRED) -> dict[str, Any]:
    """Return an object argument."""
    value: dict[str, Any] = _take(arguments, name, dict, default)
    return value


def texts(arguments: Arguments, name: str, default: Any = _REQUIRED) -> list[str]:
    """Return a list of strings."""
    value = _take(arguments, name, list, default)
    if not all(isinstance(item, str) for item in value):
        raise bad_request(f"the argument {name!r} must hold strings")
    return list(value)


def tables(arguments: Arguments, name: str, default: Any = _REQUIRED) -> list[dict[str, Any]]:
    """Return a list of objects."""
    value = _take(arguments, name, list, default)
    if not all(isinstance(item, dict) for item in value):
        raise bad_request(f"the argument {name!r} must hold objects")
    return list(value)
