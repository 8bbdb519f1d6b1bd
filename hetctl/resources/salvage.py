"""What a mark that cannot be read stood for, as far as its name tells: for removing a whole cluster. Pure.

Units, tables and rules are called after the cluster and the placement, models lie in a directory of the
cluster, and builds in one that no other mark may name. Nothing is taken from what the mark says. A process of
the cluster whose mark is gone altogether is known by its unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from hetctl.resources import layout
from hetctl.resources.activity import PROCESSES
from hetctl.resources.base import Address, Mark, digest
from hetctl.resources.marks import UNFINISHED
from hetctl.resources.reading import NodeReading
from hetctl.transport.base import Json

SEARCHED = "searched"
"""Key of a spec: directories whose entries are searched for what a mark owned."""

ABOVE = "above"
"""Key of a spec: directories below which all are searched: the cluster may have had another name."""

SPARED = "spared"
"""Key of a spec: names of directories below those that belong to other clusters."""

PATTERN = "pattern"
"""Key of a spec: what the names of those entries are like, as a regular expression for the whole name."""

KEY_PATTERN = "[0-9a-f]{16}"


def salvaged(reading: NodeReading, cluster: str, directories: layout.NodePaths) -> NodeReading:
    """Return a reading in which every damaged mark is one made from its name.

    Arguments:
        reading: What a node said.
        cluster: Whose marks they are.
        directories: Where the node has builds and models as far as the manifest knows.
    """
    known = {str(mark.spec.get("unit")) for mark in reading.marks.values()}
    lost = [
        address
        for unit in sorted({listener.unit for listener in reading.facts.listeners} - known)
        if (address := _address_of(unit, cluster, reading.node))
        and address not in (*reading.marks, *reading.damaged)
    ]
    addresses = [*reading.damaged, *lost]
    if not addresses:
        return reading
    below = tuple(
        address
        for address in (*reading.marks, *addresses)
        if address.partition("/")[0] in ("member", "build", "model", "firewall", "predecessor")
    )
    searched = _searched(reading, cluster, directories)
    made = {address: _mark(address, reading.node, cluster, below, searched) for address in addresses}
    return replace(reading, marks={**reading.marks, **made}, damaged={})


def _address_of(unit: str, cluster: str, node: str) -> Address:
    """Return the address of the worker or server that a unit of the cluster is; empty for any other unit."""
    parts = unit.removesuffix(".service").split(":")
    if parts[:2] != [layout.OWNER, cluster] or len(parts) < 4:  # noqa: PLR2004 - owner, cluster, placement, role
        return ""
    placement, role, *part = parts[2:]
    if role == "server":
        return f"server/{placement}"
    return f"worker/{placement}@{'.'.join([node, *part])}" if role == "worker" else ""


def _searched(
    reading: NodeReading, cluster: str, directories: layout.NodePaths
) -> dict[str, dict[str, Json]]:
    """Return where builds and models of the node may lie: where the manifest says, and where others do."""
    builds = {layout.NodePaths().builds, directories.builds}
    above = {layout.NodePaths().models, directories.models}
    models = {f"{root}/{cluster}" for root in above}
    for mark in reading.marks.values():
        if mark.kind == "build":
            builds.add(str(mark.spec["path"]).rpartition("/")[0])
        elif mark.kind in PROCESSES and "executable" in mark.spec:
            builds.add(str(mark.spec["executable"]).rpartition("/")[0].rpartition("/")[0])
        elif mark.kind == "model":
            models.add(str(mark.spec["directory"]).rpartition("/")[0])
    others = {mark.cluster for mark in reading.foreign} | reading.unclear
    return {
        "build": {SEARCHED: sorted(builds)},
        "model": {SEARCHED: sorted(models), ABOVE: sorted(above), SPARED: sorted(others)},
    }


def _mark(
    address: Address,
    node: str,
    cluster: str,
    below: Collection[Address],
    searched: Mapping[str, Mapping[str, Json]],
) -> Mark:
    kind, _, rest = address.partition("/")
    name, _, place = rest.partition("@")
    part = place.partition(".")[2]
    spec: dict[str, Json] = {}
    if kind in ("build", "model"):
        # a model may have had another name when its directory was made
        pattern = KEY_PATTERN if kind == "build" else f".+-{KEY_PATTERN}"
        spec = {**searched[kind], PATTERN: pattern}
    elif kind == "predecessor":
        pattern = f"{re.escape(name)}[.][0-9a-f]{{12}}[.]json"
        records = layout.predecessor_path(cluster, name, "").rpartition("/")[0]
        spec = {"placement": name, SEARCHED: [records], PATTERN: pattern}
    elif kind in _UNITS:
        spec = _UNITS[kind](cluster, name, part)
    process = kind in PROCESSES
    return Mark(
        cluster=cluster,
        address=address,
        kind=kind,
        node=node,
        spec=spec,
        spec_hash=digest(spec),
        generation=0,
        depends_on=tuple(sorted(other for other in below if process or _stands_under(other, kind))),
        gang=name if process or kind == "predecessor" else None,
        facts={"state": UNFINISHED},
    )


def _stands_under(address: Address, kind: str) -> bool:
    """Return whether what no process runs in stands on an address: all of it on the node's record."""
    return kind != "member" and address.startswith("member/")


def _worker(cluster: str, placement: str, part: str) -> dict[str, Json]:
    return _unit(layout.unit_name(cluster, placement, "worker", part=part))


def _server(cluster: str, placement: str, _part: str) -> dict[str, Json]:
    return {
        **_unit(layout.unit_name(cluster, placement, "server")),
        "watch": _unit(layout.unit_name(cluster, placement, "watch")),
        "secret_files": {"api-keys": layout.secret_path(cluster, placement, "api-keys")},
    }


def _firewall(cluster: str, placement: str, _part: str) -> dict[str, Json]:
    return {
        **_unit(layout.unit_name(cluster, placement, "firewall")),
        "placement": placement,
        "table": layout.table_name(cluster, placement),
        "rules_path": layout.ruleset_path(cluster, placement),
        "ports": {},
    }


def _unit(unit: str) -> dict[str, Json]:
    return {"unit": unit, "unit_path": layout.unit_path(unit)}


_UNITS: Mapping[str, Callable[[str, str, str], dict[str, Json]]] = {
    "worker": _worker,
    "server": _server,
    "firewall": _firewall,
}
