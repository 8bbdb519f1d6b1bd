"""What a command works with: its streams, and how a manifest becomes a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from hetctl.errors import ExitCode, UsageError, worst
from hetctl.report.console import Console

if TYPE_CHECKING:  # the resource layer takes a while to load, and --help needs none of it
    from hetctl.resources.provider import Access, Provider

DEFAULT_MANIFEST = "cluster.yaml"
STDIN = "-"


@dataclass
class Surroundings:
    """What every command gets.

    Arguments:
        console: Its streams.
        load: Makes a provider from a manifest.
        find: Makes a provider from a cluster's name and one of its nodes.
    """

    console: Console
    load: Callable[[Path, Access], Provider]
    find: Callable[[str, str, Access], Provider] = field(default_factory=lambda: _find)

    def provider(self, file: str, *, accept_new_host_keys: bool = False) -> Provider:
        """Load the manifest a command is about.

        Raises:
            UsageError: There is no such file.
            ManifestInvalid: It is wrong.
        """
        path = Path(file)
        if file != STDIN and not _exists(path):
            fix = "write one, or name the one you mean" if file == DEFAULT_MANIFEST else "check the path"
            raise UsageError("there is no such manifest", where=file, fix=fix)
        return self.load(path, self._access(accept_new_host_keys=accept_new_host_keys))

    def found(self, cluster: str, node: str, *, accept_new_host_keys: bool = False) -> Provider:
        """Return a cluster that is known by one of its nodes.

        Raises:
            UsageError: That is no name of a cluster, or no node.
        """
        return self.find(cluster, node, self._access(accept_new_host_keys=accept_new_host_keys))

    def _access(self, *, accept_new_host_keys: bool) -> Access:
        from hetctl.resources.provider import Access  # noqa: PLC0415 - see above

        confirm = self._confirm_host_key if self.console.interactive else None
        return Access(accept_new_host_keys=accept_new_host_keys, confirm_host_key=confirm)

    def _confirm_host_key(self, node: str, key: str) -> bool:
        self.console.note(f"first contact with {node}: {key}\n")
        return self.console.confirm("Is this the right host?")


def _exists(path: Path) -> bool:
    """Say whether there is such a file; a name that no file system takes is one that is not there."""
    try:
        return path.exists()
    except OSError:
        return False


def exit_code(codes: Sequence[ExitCode]) -> int:
    """Return the exit code that takes precedence."""
    return int(worst(list(codes)))


def from_process() -> Surroundings:
    """Return the surroundings of this process."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that can't show a letter gets an escape for it instead of a traceback.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return Surroundings(Console(sys.stdin, sys.stdout, sys.stderr, os.environ), _load)


def _load(path: Path, access: Access) -> Provider:
    from hetctl.resources.cluster import load_cluster  # noqa: PLC0415 - see above

    return load_cluster(path, access)


def _find(cluster: str, node: str, access: Access) -> Provider:
    from hetctl.resources.found import found_cluster  # noqa: PLC0415 - see above

    return found_cluster(cluster, node, access)
