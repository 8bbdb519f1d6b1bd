"""Run commands in this process, with a cluster of dictionaries behind them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hetctl.cli.main import run
from hetctl.cli.surroundings import Surroundings
from hetctl.report.console import Console
from hetctl.resources.provider import Access
from tests.engine.toy import ToyCluster


class Stream(io.StringIO):
    """A stream that may pass for a terminal."""

    def __init__(self, text: str = "", *, interactive: bool = False) -> None:
        super().__init__(text)
        self.interactive = interactive

    def isatty(self) -> bool:
        return self.interactive


@dataclass(frozen=True)
class Ended:
    """What a command left."""

    code: int
    out: str
    err: str


@dataclass
class Bench:
    """Runs commands on one cluster; the manifest is an empty file, since a toy reads none."""

    cluster: ToyCluster
    manifest: Path
    access: list[Access] = field(default_factory=list)
    found: list[tuple[str, str]] = field(default_factory=list)

    def load(self, path: Path, access: Access) -> ToyCluster:
        self.access.append(access)
        self.cluster.manifest = path
        return self.cluster

    def find(self, cluster: str, node: str, access: Access) -> ToyCluster:
        self.access.append(access)
        self.found.append((cluster, node))
        return self.cluster

    def __call__(
        self,
        *arguments: str,
        typed: str = "",
        interactive: bool = False,
        environment: Mapping[str, str] = {"TERM": "dumb"},
    ) -> Ended:
        stdin = Stream(typed, interactive=interactive)
        stdout, stderr = Stream(), Stream(interactive=interactive)
        words = [word.replace("FILE", str(self.manifest)) for word in arguments]
        console = Console(stdin, stdout, stderr, environment)
        code = run(words, Surroundings(console, self.load, self.find))
        return Ended(code, stdout.getvalue(), stderr.getvalue())


def bench(cluster: ToyCluster, folder: Path) -> Bench:
    """Return a bench for a cluster with a manifest in a folder."""
    manifest = folder / "cluster.yaml"
    manifest.write_text("kind: Cluster\n", encoding="utf-8")
    return Bench(cluster, manifest)
