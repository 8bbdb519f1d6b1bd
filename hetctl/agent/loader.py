"""First code of the agent on a node: imports the other modules from memory.

It is executed, not imported: the bundle is this file followed by a call of `start`. Modules come from the
sources in the bundle; their bytecode comes from a former `install`, when there is one for this interpreter.
"""

from __future__ import annotations

import marshal
import os
import sys
from importlib.machinery import ModuleSpec
from typing import Any


class MemoryFinder:
    """Finds and loads modules whose source is in a dictionary.

    Arguments:
        sources: Module name to source text. Packages are the names that others start with.
        bytecode: Module name to marshalled code; may be empty.
    """

    def __init__(self, sources: dict[str, str], bytecode: dict[str, bytes]) -> None:
        self.sources = sources
        self.bytecode = bytecode

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of the bundle (the import protocol)."""
        del path, target
        if name not in self.sources:
            return None
        package = any(other.startswith(name + ".") for other in self.sources)
        return ModuleSpec(name, self, origin=f"<bundle>/{name}", is_package=package)  # type: ignore[arg-type]  # duck-typed loader

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system make the module (the import protocol)."""

    def exec_module(self, module: Any) -> None:
        """Run the module's code (the import protocol)."""
        exec(self.code(module.__name__), module.__dict__)  # noqa: S102 - this is what a loader does

    def code(self, name: str) -> Any:
        """Return the code object of a module."""
        if name in self.bytecode:
            return marshal.loads(self.bytecode[name])  # noqa: S302 - trusted file, see `read_bytecode`
        return compile(self.sources[name], f"<bundle>/{name}", "exec", dont_inherit=True)

    def get_source(self, name: str) -> str:
        """Return the source, so that tracebacks show lines."""
        return self.sources[name]


def bytecode_name() -> str:
    """Return the file name of the bytecode for this very interpreter."""
    return f"bytecode.{sys.implementation.cache_tag}-{sys.hexversion:x}"


def read_bytecode(directory: str) -> dict[str, bytes]:
    """Return the installed bytecode; nothing unless only root or this user can have written it."""
    path = os.path.join(directory, bytecode_name())
    try:
        for place in (directory, path):
            status = os.lstat(place)
            if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
                return {}
        with open(path, "rb") as file:
            found = marshal.load(file)  # noqa: S302 - owner and mode were checked
    except (OSError, EOFError, ValueError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def start(sources: dict[str, str], header: bytes, stream: Any) -> None:
    """Import the agent and run it till the session ends.

    Arguments:
        sources: Module name to source.
        header: The line that announced the bundle: magic, size, sha256, mode, root (hex).
        stream: Buffered standard input, right behind the bundle.
    """
    _, _, sha256, mode, root_hex = header.split()
    root = bytes.fromhex(root_hex.decode()).decode()
    bytecode = read_bytecode(f"{root.rstrip('/')}/var/lib/hetctl/agent/{sha256.decode()}")
    finder = MemoryFinder(sources, bytecode)
    sys.meta_path.insert(0, finder)
    from hetctl.agent.main import serve  # noqa: PLC0415 - importable only now

    sys.exit(
        serve(stream, finder, sha256.decode(), read_only=mode == b"read", root=root, installed=bool(bytecode))
    )
