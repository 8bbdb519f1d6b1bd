"""What marks say, in the names of the present manifest. Pure.

Nodes, builds, models, placements and the cluster itself may be renamed. A mark under an earlier name is
translated when it is read, so that everything behind it, from recorded ports to the comparison of what is
wanted with what is there, knows the present names only. What really stands on the node under its old name, a
unit or a table, stays in the spec as it is: that difference is the change to make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hetctl.manifest.cluster import Cluster
from hetctl.resources.base import Address, Mark, digest
from hetctl.resources.desired_build import build_summary
from hetctl.transport.base import Json

Table = Mapping[str, str]
"""Old name to new name."""


@dataclass(frozen=True, slots=True)
class Renames:
    """Which names changed.

    Arguments:
        cluster: The present name of the cluster.
        predecessor: Its name before; empty when that is the same.
        nodes: Of nodes; the other tables likewise.
        builds: Of builds.
        models: Of models.
        placements: Of placements.
    """

    cluster: str
    predecessor: str = ""
    nodes: Table = field(default_factory=dict)
    builds: Table = field(default_factory=dict)
    models: Table = field(default_factory=dict)
    placements: Table = field(default_factory=dict)

    def on_machine(self, called: str, node: str) -> Renames:
        """Return the same with what one machine is called now, whatever is said of others of that name."""
        return replace(self, nodes={**self.nodes, called: node}) if called else self

    def address(self, address: Address) -> Address:
        """Return the present form of an address: `kind/name`, `kind/name@node` or `kind/name@node.part`."""
        kind, _, rest = address.partition("/")
        name, at, place = rest.partition("@")
        node, dot, part = place.partition(".")
        tables = {"member": self.nodes, "build": self.builds, "model": self.models}
        name = tables.get(kind, self.placements).get(name, name)
        return f"{kind}/{name}{at}{self.nodes.get(node, node)}{dot}{part}"

    def device(self, reference: str) -> str:
        """Return the present form of `node/device`; `cpu` alone is nobody's name."""
        node, slash, name = reference.partition("/")
        return f"{self.nodes.get(node, node)}/{name}" if slash else reference


def declared_renames(cluster: Cluster) -> Renames:
    """Return what `renamedFrom` says in a manifest."""

    def table(section: Mapping[str, Any]) -> Table:
        return {item.renamed_from: name for name, item in section.items() if item.renamed_from is not None}

    return Renames(
        cluster=cluster.name,
        predecessor=cluster.renamed_from or "",
        nodes=table({**cluster.vms, **cluster.nodes}),
        builds=table(cluster.builds),
        models=table(cluster.models),
        placements=table(cluster.placements),
    )


def translated(mark: Mark, renames: Renames) -> Mark:
    """Return a mark in the present names; the very same when none of them changed."""
    spec = _spec(mark.kind, mark.spec, renames)
    facts = dict(mark.facts)
    if previous := facts.get("previous"):
        facts["previous"] = {**previous, "spec": _spec(mark.kind, previous["spec"], renames)}
    new = replace(
        mark,
        cluster=renames.cluster,
        address=renames.address(mark.address),
        spec=spec,
        spec_hash=mark.spec_hash if spec == dict(mark.spec) else digest(spec),
        depends_on=tuple(renames.address(address) for address in mark.depends_on),
        gang=renames.placements.get(mark.gang, mark.gang) if mark.gang is not None else None,
        facts=facts,
    )
    return mark if new == mark else replace(new, stored=mark)


def in_present_names(
    marks: Mapping[Address, Mark], earlier: tuple[Mark, ...], renames: Renames
) -> list[Mark]:
    """Return the marks of one node in the present names.

    Arguments:
        marks: Of this cluster.
        earlier: Of the cluster under its name before.
        renames: What changed.

    Where a rename was cut off, a resource has a mark under both names: the one under the present name holds,
    and the other goes when the rename is done.
    """
    found: dict[Address, Mark] = {}
    for mark in (*marks.values(), *earlier):
        new = translated(mark, renames)
        other = found.get(new.address)
        if other is None:
            found[new.address] = new
        elif other.stored is None:
            found[new.address] = replace(other, stored=mark)
        elif new.stored is None:
            found[new.address] = replace(new, stored=other.stored)
    return list(found.values())


def _spec(kind: str, spec: Mapping[str, Json], renames: Renames) -> dict[str, Json]:
    """Return a spec in the present names; paths and names of units are what they are."""
    change = _SPECS.get(kind)
    return {**spec, **change(spec, renames)} if change is not None else dict(spec)


def _build(spec: Mapping[str, Json], renames: Renames) -> dict[str, Json]:
    node = renames.nodes.get(spec["toolchain"]["node"], spec["toolchain"]["node"])
    return {
        "build": renames.builds.get(spec["build"], spec["build"]),
        "toolchain": {**spec["toolchain"], "node": node},
        "summary": build_summary(spec["identity"]["version"], node),
    }


def _model(spec: Mapping[str, Json], renames: Renames) -> dict[str, Json]:
    return {"model": renames.models.get(spec["model"], spec["model"])}


def _of_placement(spec: Mapping[str, Json], renames: Renames) -> dict[str, Json]:
    return {"placement": renames.placements.get(spec["placement"], spec["placement"])}


def _worker(spec: Mapping[str, Json], renames: Renames) -> dict[str, Json]:
    return {
        **_of_placement(spec, renames),
        "devices": [renames.device(device) for device in spec["devices"]],
        "head": renames.nodes.get(spec["head"], spec["head"]),
    }


def _server(spec: Mapping[str, Json], renames: Renames) -> dict[str, Json]:
    settings = spec["settings"]
    return {
        **_of_placement(spec, renames),
        "model": renames.models.get(spec["model"], spec["model"]),
        "settings": {
            **settings,
            "devices": [renames.device(device) for device in settings["devices"]],
            "layers": {renames.device(device): count for device, count in settings["layers"].items()},
        },
        "workers": [
            {
                **worker,
                "address": renames.address(worker["address"]),
                "node": renames.nodes.get(worker["node"], worker["node"]),
            }
            for worker in spec["workers"]
        ],
    }


_SPECS: Mapping[str, Callable[[Mapping[str, Json], Renames], dict[str, Json]]] = {
    "build": _build,
    "model": _model,
    "firewall": _of_placement,
    "predecessor": _of_placement,
    "worker": _worker,
    "server": _server,
}
"""For each kind whose spec holds names: the parts of it that do, in the present names."""
