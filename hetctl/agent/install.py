"""Leaving the agent's sources and bytecode on the node, so that later sessions start faster."""

from __future__ import annotations

import marshal
import os
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent import loader
from hetctl.agent.atomic import make_directories, replacing, write_all
from hetctl.agent.context import STATE
from hetctl.agent.failures import bad_request
from hetctl.agent.removal import remove_path

if TYPE_CHECKING:
    from hetctl.agent.context import Context

AGENT = f"{STATE}/agent"


def install(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write this very agent under its hash and remove older ones.

    The sources are those the session runs from; the bytecode is for the interpreter that runs it.
    """
    sha256 = arg.text(arguments, "bundle")
    if sha256 != context.sha256:
        raise bad_request("only the agent of this session can be installed")
    top = context.path(AGENT)
    directory = f"{top}/{sha256}"
    make_directories(directory)
    if not loader.read_bytecode(directory):
        _write(context.sources, directory)
    removed = [name for name in sorted(os.listdir(top)) if name != sha256]
    for name in removed:
        remove_path(f"{top}/{name}")
    return {"path": f"{AGENT}/{sha256}", "removed": removed}


def _write(sources: dict[str, str], directory: str) -> None:
    """Write the sources, for people to read, and the bytecode of all of them in one file."""
    finder = loader.MemoryFinder(sources, {})
    bytecode = {}
    for name, source in sources.items():
        bytecode[name] = marshal.dumps(finder.code(name))
        with replacing(f"{directory}/{name}.py", 0o644) as descriptor:
            write_all(descriptor, source.encode())
    with replacing(f"{directory}/{loader.bytecode_name()}", 0o644) as descriptor:
        write_all(descriptor, marshal.dumps(bytecode))
