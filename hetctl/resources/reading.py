"""What one node says when it is first asked: facts, marks, records, and how it reaches the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hetctl.facts.node import NodeFacts, parse_node_facts
from hetctl.resources.base import Address, Desired, Mark, Observed
from hetctl.resources.marks import is_finished, mark_from_json
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
        sources: For each destination the address its packets would come from; empty text when unreachable.
    """

    node: str
    peer_address: str
    facts: NodeFacts
    marks: Mapping[Address, Mark]
    damaged: Mapping[Address, str] = field(default_factory=dict)
    foreign: tuple[Mark, ...] = ()
    members: Mapping[str, Any] | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


def read_node(
    session: Session, *, cluster: str, destinations: Sequence[str], paths: Sequence[str]
) -> NodeReading:
    """Ask a node what it has; read-only.

    Arguments:
        session: Of the node.
        cluster: Whose marks are this cluster's.
        destinations: IPv4 addresses whose route matters.
        paths: Directories whose free space matters.
    """
    facts = parse_node_facts(session.call("facts", {"paths": list(paths)}))
    found = session.call("marks")["clusters"]
    routes = session.call("routes", {"destinations": list(destinations)})["sources"] if destinations else {}
    own: dict[Address, Mark] = {}
    damaged: dict[Address, str] = {}
    foreign: list[Mark] = []
    for name, entry in found.items():
        for address, stored in (entry.get("marks") or {}).items():
            mark = mark_from_json(stored)
            if isinstance(mark, str):
                if name == cluster:
                    damaged[address] = mark
            elif name == cluster:
                own[mark.address] = mark
            else:
                foreign.append(mark)
    return NodeReading(
        node=session.node,
        peer_address=session.peer_address,
        facts=facts,
        marks=own,
        damaged=damaged,
        foreign=tuple(foreign),
        members=(found.get(cluster) or {}).get("members"),
        sources={destination: source or "" for destination, source in routes.items()},
    )


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
