"""Every operation a node answers: its name, where it lives, and whether it changes the node."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetctl.agent.context import Context


class Operation(NamedTuple):
    """Where an operation lives; modules are imported when they are first needed."""

    module: str
    function: str
    mutates: bool

    def load(self) -> Callable[[Context, dict[str, Any]], dict[str, Any]]:
        """Import the module and return the function."""
        function: Callable[[Context, dict[str, Any]], dict[str, Any]]
        function = getattr(import_module(f"hetctl.agent.{self.module}"), self.function)
        return function


OPERATIONS = {
    "facts": Operation("node_facts", "facts", mutates=False),
    "marks": Operation("marks", "marks", mutates=False),
    "observe": Operation("observe", "observe", mutates=False),
    "routes": Operation("network", "routes", mutates=False),
    "probe_tcp": Operation("network", "probe_tcp", mutates=False),
    "probe_rpc": Operation("rpc", "probe_rpc", mutates=False),
    "http": Operation("http_request", "http_request", mutates=False),
    "journal": Operation("journal", "journal", mutates=False),
    "read_file": Operation("files", "read_file", mutates=False),
    "partial": Operation("files", "partial", mutates=False),
    "lock": Operation("locks", "lock", mutates=True),
    "unlock": Operation("unlock", "unlock", mutates=True),
    "install": Operation("install", "install", mutates=True),
    "make_directories": Operation("files", "make_directories", mutates=True),
    "put_file": Operation("files", "put_file", mutates=True),
    "put_tree": Operation("trees", "put_tree", mutates=True),
    "get_tree": Operation("trees", "get_tree", mutates=False),
    "hash_tree": Operation("trees", "hash_tree", mutates=False),
    "unpack": Operation("archives", "unpack", mutates=True),
    "run": Operation("processes", "run", mutates=True),
    "systemd": Operation("services", "systemd", mutates=True),
    "nft": Operation("nftables", "nft", mutates=True),
    "retire": Operation("predecessor", "retire", mutates=True),
    "revive": Operation("predecessor", "revive", mutates=True),
    "remove": Operation("removal", "remove", mutates=True),
    "write_mark": Operation("marks", "write_mark", mutates=True),
    "remove_mark": Operation("marks", "remove_mark", mutates=True),
    "write_members": Operation("marks", "write_members", mutates=True),
    "remove_cluster": Operation("marks", "remove_cluster", mutates=True),
    "salt": Operation("marks", "salt", mutates=True),
}
