r"""Everything that another program will parse is written here, and nowhere else.

Each function returns text that its reader takes for exactly the value given, or raises `Unquotable`:

    reader                                function
    POSIX shell                           shell_word, shell_command
    systemd unit, a plain value           unit_value
    systemd unit, one word or several     unit_word, unit_words
    systemd unit, Exec lines              unit_command
    systemd unit, Environment=            unit_environment
    systemd EnvironmentFile               environment_line
    systemd unit name                     unit_name
    nftables                              nft_identifier, nft_string, nft_address
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence

from hetctl.errors import ExitCode, HetctlError

LONGEST_UNIT_NAME = 255
LONGEST_NFT_NAME = 127
LONGEST_NFT_COMMENT = 128
UNIT_SUFFIXES = frozenset({"service", "socket", "timer", "target", "path", "slice", "mount"})

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_PLAIN_UNIT_WORD = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NFT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_UNIT_NAME_CHARACTER = re.compile(r"[A-Za-z0-9_.-]")


class Unquotable(HetctlError, ValueError):  # noqa: N818 - as all of this tree
    """There is no way to write this value in that place: the manifest asks for it."""

    exit_code = ExitCode.MANIFEST_INVALID


def _refuse_control_characters(text: str, place: str) -> None:
    """Refuse what ends a line or cannot be UTF-8: no reader here agrees with another on those."""
    for char in text:
        if ord(char) < ord(" ") or ord(char) == 0x7F or "\ud800" <= char <= "\udfff":  # noqa: PLR2004 - DEL
            raise Unquotable(f"{place} cannot hold the character {char!r}", why=repr(text))


def shell_word(text: str) -> str:
    """Return `text` as one word for a POSIX shell.

    Raises:
        Unquotable: It holds a NUL, which no argument can, or a lone surrogate.
    """
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise Unquotable("an argument cannot hold a NUL or half a character", why=repr(text))
    if _PLAIN_WORD.fullmatch(text) and "=" not in text:
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def shell_command(words: Iterable[str]) -> str:
    """Return a command line for a POSIX shell."""
    return " ".join(shell_word(word) for word in words)


def unit_value(text: str) -> str:
    """Return `text` as the whole value of a unit setting that is not split into words, such as Description=.

    Raises:
        Unquotable: It holds control characters, spaces at an end (systemd strips them) or a backslash at the
            end (systemd joins the next line).
    """
    _refuse_control_characters(text, "a unit file")
    if text != text.strip(" ") or text.endswith("\\"):
        raise Unquotable(
            "a unit value cannot begin or end with a space, or end with a backslash", why=repr(text)
        )
    return text.replace("%", "%%")


def unit_word(text: str) -> str:
    """Return `text` as one word of a unit setting that is split into words, such as a path."""
    _refuse_control_characters(text, "a unit file")
    if _PLAIN_UNIT_WORD.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def unit_words(words: Iterable[str]) -> str:
    """Return several words of a unit setting."""
    return " ".join(unit_word(word) for word in words)


def unit_command(argv: Sequence[str]) -> str:
    """Return the value of an Exec line (ExecStart=, ExecStartPre=, ExecStop=).

    Raises:
        Unquotable: The program is no absolute path, or its path holds `$`, which cannot be escaped there.
    """
    if not argv or not argv[0].startswith("/"):
        raise Unquotable("a unit starts programs by their absolute path", why=repr(list(argv)))
    if "$" in argv[0]:
        raise Unquotable("the path of a unit's program cannot hold a '$'", why=repr(argv[0]))
    return " ".join([unit_word(argv[0]), *(unit_word(word).replace("$", "$$") for word in argv[1:])])


def _checked_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise Unquotable("not a name for an environment variable", why=repr(name))
    return name


def unit_environment(name: str, value: str) -> str:
    """Return one assignment for Environment=."""
    return unit_word(f"{_checked_variable(name)}={value}")


def environment_line(name: str, value: str) -> str:
    """Return one line of an EnvironmentFile, without its line break; `%` means nothing there."""
    _refuse_control_characters(value, "an environment file")
    return f'{_checked_variable(name)}="' + re.sub(r'([\\"`$])', r"\\\1", value) + '"'


def unit_name(parts: Sequence[str], suffix: str = "service") -> str:
    r"""Return a unit name made of arbitrary names; different parts give different names.

    The parts are joined by colons, which no part keeps; in a part, everything but letters, digits and `_.-`
    is written as \xNN, byte by byte, as systemd-escape does.
    """
    if suffix not in UNIT_SUFFIXES or not parts or not all(parts):
        raise Unquotable("not the parts of a unit name", why=repr((list(parts), suffix)))
    name = ":".join(_escape_unit_part(part) for part in parts) + f".{suffix}"
    if len(name) > LONGEST_UNIT_NAME:
        raise Unquotable(f"a unit name has at most {LONGEST_UNIT_NAME} characters", why=name)
    return name


def _escape_unit_part(part: str) -> str:
    _refuse_control_characters(part, "a unit name")
    kept = [bool(_UNIT_NAME_CHARACTER.fullmatch(char)) for char in part]
    kept[0] = kept[0] and part[0] != "."
    return "".join(
        char if keep else "".join(f"\\x{byte:02x}" for byte in char.encode())
        for char, keep in zip(part, kept, strict=True)
    )


def nft_identifier(text: str) -> str:
    """Return the name of a table, chain or set for nft.

    Raises:
        Unquotable: It is not a letter followed by letters, digits and underscores, or too long.
    """
    if not _NFT_NAME.fullmatch(text) or len(text) > LONGEST_NFT_NAME:
        raise Unquotable("not a name that nft takes", why=repr(text))
    return text


def nft_string(text: str) -> str:
    """Return a quoted string for nft, such as a comment or an interface name.

    Raises:
        Unquotable: It holds a double quote, which nft cannot escape, is not ASCII, or is too long.
    """
    _refuse_control_characters(text, "an nft script")
    if '"' in text or "\\" in text or not text.isascii() or len(text) > LONGEST_NFT_COMMENT:
        raise Unquotable("not a string that nft takes", why=repr(text))
    return f'"{text}"'


def nft_address(text: str) -> str:
    """Return an address or a network for nft, in its usual form.

    Raises:
        Unquotable: It is neither, or has a zone (`%eth0`).
    """
    if "%" in text:
        raise Unquotable("an nft address cannot have a zone", why=repr(text))
    try:
        return str(ipaddress.ip_network(text, strict=False) if "/" in text else ipaddress.ip_address(text))
    except ValueError as error:
        raise Unquotable("not an address that nft takes", why=repr(text)) from error
