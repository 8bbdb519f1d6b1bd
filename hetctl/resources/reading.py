"""What one node says when it is first asked: facts, marks, records, and how it reaches the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hetctl.facts.node import NodeFacts, parse_node_facts
from hetctl.resources.base import Address, Desired, Mark, Observed
from hetctl.resources.marks import is_finished, mark_from_json, newer_format
from hetctl.resources.provider import NodeObservation
from hetctl.transport.base import Json, Session

OBSERVE_DEADLINE = 1800.0
"""Seconds. Only files whose size, time or inode changed are read, but those may be large models."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """What one node said.

    Arguments:
        node: Its name.
        peer_address: Its address as the connection sees it.
        facts: About the machine.
        marks: Of this cluster.
        damaged: Marks of this cluster that cannot be trusted, and why.
        foreign: Marks of other clusters.
        members: This cluster's member record; None when there is none.
        names: What the machine's own records call it; two while a rename is not finished.
        earlier: Marks that this cluster left under its name before.
        damaged_earlier: Those of them that cannot be trusted, and why.
        newer: Marks that only a newer hetctl can read, `cluster: address` each, and why.
        unclear: Other clusters that have marks which cannot be read.
        sources: For each destination the address its packets would come from; empty text when unreachable.
    """

    node: str
    peer_address: str
    facts: NodeFacts
    marks: Mapping[Address, Mark]
    damaged: Mapping[Address, str] = field(default_factory=dict)
    foreign: tuple[Mark, ...] = ()
    members: Mapping[str, Any] | None = None
    names: tuple[str, ...] = ()
    earlier: tuple[Mark, ...] = ()
    damaged_earlier: Mapping[Address, str] = field(default_factory=dict)
    newer: Mapping[str, str] = field(default_factory=dict)
    unclear: frozenset[str] = frozenset()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def called(self) -> str:
        """What the machine was called before; its name when that is the same, empty when it had none."""
        return next((name for name in self.names if name != self.node), self.node if self.names else "")


def read_node(
    session: Session,
    *,
    cluster: str,
    destinations: Sequence[str],
    paths: Sequence[str],
    predecessor: str = "",
) -> NodeReading:
    """Ask a node what it has; read-only.

    Arguments:
        session: Of the node.
        cluster: Whose marks are this cluster's.
        predecessor: The cluster's name before; empty when it never had another.
        destinations: IPv4 addresses whose route matters.
        paths: Directories whose free space matters.
    """
    facts = parse_node_facts(session.call("facts", {"paths": list(paths)}))
    found = session.call("marks")["clusters"]
    routes = session.call("routes", {"destinations": list(destinations)})["sources"] if destinations else {}
    own = _sorted(found.get(cluster) or {}, session.node)
    before = _sorted((found.get(predecessor) or {}) if predecessor else {}, session.node)
    others = {
        name: _sorted(entry, session.node)
        for name, entry in found.items()
        if name not in (cluster, predecessor)
    }
    record = (found.get(cluster) or {}).get("members")
    if record is None and predecessor:
        record = (found.get(predecessor) or {}).get("members")
    return NodeReading(
        node=session.node,
        peer_address=session.peer_address,
        facts=facts,
        marks={mark.address: mark for mark in own.marks},
        damaged=own.damaged,
        foreign=tuple(mark for entry in others.values() for mark in entry.marks),
        members=record,
        names=_names([*own.addresses, *before.addresses]),
        earlier=before.marks,
        damaged_earlier=before.damaged,
        newer={
            f"{name}: {address}": why
            for name, entry in ((cluster, own), (predecessor, before))
            for address, why in entry.newer.items()
        },
        unclear=frozenset(name for name, entry in others.items() if entry.damaged or entry.newer),
        sources={destination: source or "" for destination, source in routes.items()},
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """The marks of one cluster on a node by how well they can be read."""

    marks: tuple[Mark, ...]
    damaged: Mapping[Address, str]
    newer: Mapping[Address, str]

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses of all of them."""
        return (*(mark.address for mark in self.marks), *self.damaged, *self.newer)


def _sorted(entry: Mapping[str, Any], node: str) -> _Entry:
    marks: list[Mark] = []
    damaged: dict[Address, str] = {}
    newer: dict[Address, str] = {}
    for address, stored in (entry.get("marks") or {}).items():
        if why := newer_format(stored):
            newer[address] = why
            continue
        mark = mark_from_json(stored)
        if isinstance(mark, str):
            damaged[address] = mark
        else:
            # It stands where it was read, whatever that node was called when it was made.
            marks.append(replace(mark, node=node))
    return _Entry(tuple(marks), damaged, newer)


def _names(addresses: Sequence[Address]) -> tuple[str, ...]:
    """Return what a machine's own records call it."""
    found = [address.partition("/")[2] for address in addresses if address.startswith("member/")]
    return tuple(dict.fromkeys(found))


def observe_node(
    session: Session,
    reading: NodeReading,
    desired: Sequence[Desired],
    undeclared: Sequence[Mark],
    objects_of: Callable[[Desired], Sequence[Mapping[str, Json]]],
) -> NodeObservation:
    """Return what a node has of the resources that stand on it, in one request.

    Arguments:
        session: Of the node.
        reading: What it said before.
        desired: Resources that should stand on it.
        undeclared: Marks that no desired resource claims.
        objects_of: Names the objects a resource will own.

    Where there is a mark its objects are looked at, since they carry what was written; otherwise those the
    resource will own, so that what is in the way is seen.
    """
    requests: list[Mapping[str, Json]] = []
    slices: list[tuple[Address, Mark | None, int, int, bool]] = []
    for item in desired:
        mark = reading.marks.get(item.address)
        objects = list(mark.objects) if mark is not None else []
        if mark is None or not is_finished(mark) or mark.spec_hash != item.spec_hash:
            objects += objects_of(item)
        slices.append((item.address, mark, len(requests), len(objects), True))
        requests += objects
    for mark in undeclared:
        slices.append((mark.address, mark, len(requests), len(mark.objects), False))
        requests += mark.objects
    asked = {"objects": [dict(item) for item in requests]}
    states = session.call("observe", asked, deadline=OBSERVE_DEADLINE)["states"] if requests else []
    known: Mapping[str, Json] = {"salt": reading.facts.salt, "members": reading.members}
    declared: dict[Address, Observed] = {}
    leaving: dict[Address, Observed] = {}
    for address, found, start, length, wanted_here in slices:
        observed = Observed(mark=found, states=(*states[start : start + length], known))
        (declared if wanted_here else leaving)[address] = observed
    return NodeObservation(desired=declared, undeclared=leaving)
