"""A made-up cluster: a manifest that is really loaded, and readings of nodes that never existed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hetctl.errors import NodeUnreachable
from hetctl.facts.node import NodeFacts, parse_node_facts
from hetctl.manifest import load
from hetctl.manifest.references import resolve
from hetctl.manifest.secrets import SecretRef
from hetctl.resources.arrangement import Inputs, ModelShape
from hetctl.resources.base import Desired, Mark
from hetctl.resources.desired import desired_state
from hetctl.resources.marks import PROVED, mark_for, mark_from_json, mark_to_json
from hetctl.resources.provider import DesiredState, Survey
from hetctl.resources.reading import NodeReading
from hetctl.resources.scripts import SCRIPTS
from hetctl.rules.finding import Severity
from tests.fit import gguf_writer

Made = tuple[dict[str, gguf_writer.Pair], list[tuple[str, tuple[int, ...], str]]]
"""Metadata and tensors of a model file."""

START = "apiVersion: hetctl/v1\nkind: Cluster\nname: den\n"
BUILD = """
builds:
  main: {version: VERSION, source: {archive: llama.cpp.tar.gz}}
models:
  gemma: {source: gemma.gguf}
"""
ARCHIVE_DIGEST = "a" * 64
MODEL_DIGEST = "b" * 64
RPC_HEADER = """
#define RPC_PROTO_MAJOR_VERSION    7
#define RPC_PROTO_MINOR_VERSION    0
#define RPC_PROTO_PATCH_VERSION    0
"""

FACTS: Mapping[str, Any] = {
    "hostname": "node",
    "architecture": "x86_64",
    "glibc": "2.36",
    "pid1": "systemd",
    "cpu": {"model": "a processor", "flags": ["sse4_2", "avx", "avx2"], "cores": 8},
    "memory": {"total": 32 * 2**30, "available": 24 * 2**30},
    "groups": ["render", "root", "video"],
    "tools": {
        name: {"path": f"/usr/bin/{name}", "version": f"{name} 12.2.0"}
        for name in ("cmake", "g++", "ninja", "nft", "python3")
    },
}
"""What a machine says that lacks nothing, in the agent's form."""


def machine(**other: Any) -> NodeFacts:
    """Return facts of a machine, with some of the agent's answers replaced."""
    return parse_node_facts({**FACTS, **other})


@dataclass
class Den:
    """The cluster under test.

    Arguments:
        directory: Where its manifest and its files are written.
        manifest: Nodes and placements; the rest is added.
        version: Of llama.cpp.
        model: Metadata and tensors of the model.
        facts: What the agent answers on each node, where it differs from `FACTS`; None: it cannot be reached.
        marks: What nodes remember.
        sources: For each head where its packets to each destination come from.
        operator: Reads the operator's machine.
        states: What a command asks of placements.
    """

    directory: Path
    manifest: str
    version: str = "b11434"
    model: Made = field(default_factory=gguf_writer.transformer)
    facts: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    marks: Sequence[Mark] = ()
    sources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    operator: Callable[[], NodeFacts] = machine
    states: Mapping[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> Inputs:
        """What its desired state follows from."""
        path = self.directory / "cluster.yaml"
        path.write_text(f"{START}{BUILD.replace('VERSION', self.version)}{self.manifest}")
        file = gguf_writer.write(self.directory / "gemma.gguf", *self.model)
        resolved = resolve(load([path]))
        described = gguf_writer.described(*self.model)
        return Inputs(
            resolved=resolved,
            survey=self.survey(resolved.nodes),
            shapes={"gemma": ModelShape(described, file.stat().st_size)},
            digests={resolved.archives["main"]: ARCHIVE_DIGEST, resolved.models["gemma"]: MODEL_DIGEST},
            rpc_headers={"main": RPC_HEADER},
            scripts={name: f"print({name!r})\n" for name in SCRIPTS},
            operator=self.operator,
            secret=_secret,
            states=self.states,
        )

    def survey(self, nodes: Mapping[str, Any]) -> Survey:
        """Return what the nodes said."""
        found = {
            name: NodeReading(
                node=name,
                peer_address=node.address or "127.0.0.1",
                facts=machine(**(self.facts.get(name) or {})),
                marks={mark.address: mark for mark in self.marks if mark.node == name},
                sources=self.sources.get(name, {}),
            )
            for name, node in nodes.items()
            if self.facts.get(name, {}) is not None
        }
        silent = {name: NodeUnreachable("no answer") for name in nodes if name not in found}
        return Survey(readings=found, unknown=silent)

    @property
    def state(self) -> DesiredState:
        """What the manifest wants."""
        return desired_state(self.inputs)

    @property
    def wanted(self) -> dict[str, Desired]:
        """Its resources by address."""
        return {item.address: item for item in self.state.resources}

    def codes(self) -> set[str]:
        """Return the codes of all findings."""
        return {finding.code for finding in self.state.findings}

    def troubles(self) -> set[str]:
        """Return the codes of the findings that warn or block."""
        return {each.code for each in self.state.findings if each.severity is not Severity.INFO}

    def applied(self) -> Den:
        """Return the same cluster as it is after a successful apply."""
        return self.remembering(self.state.resources)

    def remembering(self, resources: Sequence[Desired]) -> Den:
        """Return the same cluster with marks of these resources."""
        marks = [mark_for(item, cluster="den", generation=1, state=PROVED) for item in resources]
        return replace(self, marks=[_stored(mark) for mark in marks])


def _stored(mark: Mark) -> Mark:
    """Return a mark as it comes back from a node, which stores keys in order."""
    found = mark_from_json(json.loads(json.dumps(mark_to_json(mark), sort_keys=True)))
    assert isinstance(found, Mark)
    return found


def _secret(reference: SecretRef) -> str:
    return f"value of {reference}"
