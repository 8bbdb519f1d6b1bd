"""The whole manifest."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr

from hetctl.manifest.builds import Build, Model
from hetctl.manifest.nodes import Host, Node, Ssh, Vm
from hetctl.manifest.placements import Placement
from hetctl.manifest.secrets import SecretRef
from hetctl.manifest.section import Section, key
from hetctl.manifest.source import Source
from hetctl.manifest.values import Label, Name, Prose, Text


class Mirrors(Section):
    """Other places to download from."""

    github: Text | None = key(None, "In place of https://github.com.", shown="none")
    hf: Text | None = key(None, "In place of https://huggingface.co.", shown="none")
    pypi: Text | None = key(None, "Package index.", shown="none")
    ca: SecretRef | None = key(None, "Certificate authority of the mirrors.", shown="the system's")


class Downloads(Section):
    """Who downloads, and how."""

    origin: Literal["operator", "node"] = key(
        "operator", "`operator`: this machine downloads and sends. `node`: each node does.", alias="from"
    )
    proxy: Text | None = key(None, "HTTP proxy.", shown="none")


class Acknowledged(Section):
    """A finding that is known and accepted."""

    code: Text = key(..., "Its code.")
    at: Text = key(..., "Node or device it is about.")
    severity: Literal["info", "warning"] = key("info", "What to show it as.")
    reason: Prose = key(..., "Why that is all right.")


class ManifestFile(Section):
    """What one file of the manifest may hold."""

    api_version: Literal["hetctl/v1"] = key(..., "Version of this format.")
    kind: Literal["Cluster"] = key(..., "What the file describes.")
    name: Name | None = key(
        None, "Name of the cluster. Stands in exactly one file.", shown="none: must be given"
    )
    ssh: Ssh = key({}, "How to log in to every node. Stands in at most one file.", shown="see below")
    nodes: dict[Name, Node] = key({}, "Machines by name.", shown="none")
    vms: dict[Name, Vm] = key({}, "Virtual machines with cards passed through, by name.", shown="none")
    builds: dict[Label, Build] = key({}, "Builds of llama.cpp by name.", shown="none")
    models: dict[Label, Model] = key({}, "Models by name.", shown="none")
    placements: dict[Name, Placement] = key({}, "What runs where, by name.", shown="none")
    mirrors: Mirrors = key({}, "Other places to download from.", shown="none")
    downloads: Downloads = key({}, "Who downloads, and how.", shown="see below")
    offline: bool = key(
        default=False, description="`true`: anything that needs another host than the nodes is an error."
    )
    findings: Annotated[tuple[Acknowledged, ...], Field(strict=False)] = key(
        (), "Findings that are known and accepted.", shown="none"
    )
    gateways: dict[Name, Any] = key({}, "Reserved.", shown="none")
    renamed_from: Name | None = key(
        None, "The cluster's name before, so that what carries that is taken over.", shown="none"
    )


class Cluster(ManifestFile):
    """The manifest: all files as one. Made by `hetctl.manifest.load`."""

    name: Name = key(..., "Name of the cluster.")

    _source: Source = PrivateAttr(default_factory=Source)

    @classmethod
    def of(cls, file: ManifestFile, source: Source) -> Cluster:
        """Return the cluster that a file with everything in it describes; the file must give a name."""
        cluster = cls.model_construct(file.model_fields_set, **dict(file))
        cluster._source = source  # noqa: SLF001 - its own
        return cluster

    @property
    def source(self) -> Source:
        """Where each value stands; no part of equality or serialisation."""
        return self._source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cluster) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment] # holds dictionaries

    def host(self, name: str) -> Host:
        """Return the node or virtual machine called `name`; KeyError when there is none."""
        return self.nodes[name] if name in self.nodes else self.vms[name]

    def ssh_of(self, name: str) -> Ssh:
        """Return how to log in to the host `name`: its own settings over the cluster's."""
        own = self.host(name).ssh
        return Ssh(
            user=own.user if own.user is not None else self.ssh.user,
            port=own.port if own.port is not None else self.ssh.port,
            identity=own.identity if own.identity is not None else self.ssh.identity,
        )
