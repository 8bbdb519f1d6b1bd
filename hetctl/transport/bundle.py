"""The agent as data: the sources of `hetctl.agent`, packed the same way every time."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from functools import cache

PACKAGE = "hetctl.agent"
LOADER = "loader"
PACKAGE_DOC = '"""hetctl on a node."""\n'


@dataclass(frozen=True, slots=True)
class Bundle:
    """The agent ready to be sent.

    Arguments:
        payload: Compressed Python source that starts the agent when it is executed.
        sha256: Hash of the sources (hex): the agent's version.
        sources: Module name to source text.
    """

    payload: bytes
    sha256: str
    sources: dict[str, str]


@cache
def agent_bundle() -> Bundle:
    """Return the agent's bundle. Reads the sources; imports nothing of them."""
    from importlib.resources import files  # noqa: PLC0415 - commands that touch no node start faster without

    sources = {"hetctl": PACKAGE_DOC}
    for entry in sorted(files("hetctl").joinpath("agent").iterdir(), key=lambda entry: entry.name):
        stem, dot, suffix = entry.name.rpartition(".")
        if suffix == "py" and dot:
            name = PACKAGE if stem == "__init__" else f"{PACKAGE}.{stem}"
            sources[name] = entry.read_text(encoding="utf-8")
    return pack(sources)


def pack(sources: dict[str, str]) -> Bundle:
    """Return the bundle of these modules.

    Arguments:
        sources: Module name to source text, the loader among them.
    """
    listing = repr(sorted(sources.items()))
    program = f"{sources[f'{PACKAGE}.{LOADER}']}\nstart(dict({listing}), HEADER, INPUT)\n"
    sha256 = hashlib.sha256(listing.encode()).hexdigest()
    return Bundle(payload=zlib.compress(program.encode(), 6), sha256=sha256, sources=sources)
