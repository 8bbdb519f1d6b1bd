"""Which machine is which: nodes have names, machines have a machine-id and a record of what they were called.

Manifest and record know nodes by name. A name may move to another machine, and a machine may get another name
or address. A recorded machine is one that is declared when its machine-id says so and it remembers its name,
or stands where it stood. Copies of a virtual machine may share a machine-id, so that alone decides nothing.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hetctl.errors import NodeUnreachable, Position
from hetctl.manifest.references import ResolvedNode
from hetctl.resources.member import recorded_nodes
from hetctl.resources.provider import Survey
from hetctl.resources.reading import NodeReading
from hetctl.resources.renaming import Renames, in_present_names
from hetctl.rules.finding import Finding, Severity
from hetctl.transport.base import Json

ELSEWHERE = " at "
"""Joins the name and the address of a machine whose name is another one's now. No name may hold a space."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A machine as a member record has it.

    Arguments:
        name: Under which it is recorded.
        local: It is the machine hetctl runs on.
        address: What SSH connects to; empty for a local one.
        user: Login name; None where the record has none.
        port: Of the SSH server; None for the usual one.
        machine_id: Empty when it was never read.
    """

    name: str
    local: bool
    address: str
    user: str | None = None
    port: int | None = None
    machine_id: str = ""

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> Recorded:
        """Return a machine from an entry of a record."""
        return cls(
            name=name,
            local=bool(entry["local"]),
            address=str(entry["address"] or ""),
            user=entry.get("user"),
            port=entry.get("port"),
            machine_id=str(entry.get("machine_id") or ""),
        )

    @classmethod
    def declared(cls, node: ResolvedNode, machine_id: str) -> Recorded:
        """Return a declared node as its record will have it."""
        return cls(node.name, node.local, node.address, node.ssh.user, node.ssh.port, machine_id)

    @property
    def entry(self) -> dict[str, Json]:
        """It as an entry of a record."""
        return {
            "local": self.local,
            "address": self.address,
            "user": self.user,
            "port": self.port,
            "machine_id": self.machine_id,
        }

    @property
    def called(self) -> str:
        """What the machine itself remembers to be called."""
        return self.name.partition(ELSEWHERE)[0]

    def stands_at(self, node: ResolvedNode) -> bool:
        """Return whether it is reached the way a declared node is."""
        if self.local or node.local:
            return self.local and node.local
        return (self.address, self.port or 22) == (node.address, node.ssh.port or 22)


def same_machine(one: NodeReading, other: NodeReading) -> bool:
    """Return whether two nodes that were read are one machine: one boot of one installation."""
    first, second = one.facts, other.facts
    ids = (first.machine_id, first.boot_id)
    return all(ids) and ids == (second.machine_id, second.boot_id)


def is_declared(item: Recorded, node: ResolvedNode, reading: NodeReading | None) -> bool:
    """Return whether a recorded machine is a declared node, or was replaced by it where it stood.

    Arguments:
        item: The recorded machine.
        node: The declared node.
        reading: What it said; None when it did not: then only the place can tell.
    """
    if item.stands_at(node):
        return True
    if reading is None or item.called not in reading.names:
        return False
    return item.machine_id in ("", reading.facts.machine_id)


def recorded(readings: Iterable[NodeReading]) -> list[Recorded]:
    """Return every machine that a member record names, each once."""
    found: dict[Recorded, None] = {}
    for reading in sorted(readings, key=lambda reading: reading.node):
        for name, entry in recorded_nodes(reading.members).items():
            found[Recorded.of(name, entry)] = None
    kept: dict[tuple[str, ...], Recorded] = {}
    for item in found:
        known = (item.called, item.machine_id) if item.machine_id else (item.name, "", item.address)
        kept.setdefault(known, item)
    return list(kept.values())


def departed(readings: Mapping[str, NodeReading], nodes: Mapping[str, ResolvedNode]) -> dict[str, Recorded]:
    """Return the recorded machines that no declared node is, by what the plan calls them.

    Arguments:
        readings: What declared and recorded nodes said.
        nodes: The declared nodes.

    A declared node that was not read may still be the recorded machine of its name, so that one is none.
    """
    found: dict[str, Recorded] = {}
    for item in recorded(readings.values()):
        if item.name in nodes and item.name not in readings:
            continue
        if any(is_declared(item, node, readings.get(name)) for name, node in nodes.items()):
            continue
        name = item.name
        if name in nodes or name in found:
            name = f"{item.called}{ELSEWHERE}{item.address or 'this machine'}"
        found.setdefault(name, item)
    return found


def record_entries(
    readings: Mapping[str, NodeReading], nodes: Mapping[str, ResolvedNode]
) -> dict[str, Recorded]:
    """Return how each declared node is to be recorded; one that was not read stays as it was recorded."""
    known = recorded(readings.values())
    found = {}
    for name, node in nodes.items():
        reading = readings.get(name)
        if reading is not None:
            found[name] = Recorded.declared(node, reading.facts.machine_id)
            continue
        before = next((item for item in known if item.name == name), None)
        before = before or next((item for item in known if item.stands_at(node)), None)
        found[name] = replace(before, name=name) if before is not None else Recorded.declared(node, "")
    return found


def understood(survey: Survey, nodes: Mapping[str, ResolvedNode], renames: Renames) -> Survey:
    """Return what the nodes said with each machine there once and all marks in the present names.

    Arguments:
        survey: As the nodes said it.
        nodes: The declared nodes.
        renames: What the manifest says was renamed.

    A recorded machine that turns out to be a declared one is left out; one at whose address another machine
    answers is unknown.
    """
    gone = departed(survey.readings, nodes)
    kept: dict[str, NodeReading] = {}
    unknown = dict(survey.unknown)
    twins: dict[str, str] = {}
    for name, reading in survey.readings.items():
        twin = next((other for other, seen in kept.items() if same_machine(seen, reading)), None)
        if twin is not None:
            if name in nodes:
                twins[name] = twin
        elif name in gone and _is_stranger(gone[name], reading):
            unknown[name] = NodeUnreachable(
                "another machine answers at its address",
                where=name,
                why=f"it says machine-id {reading.facts.machine_id}, recorded is {gone[name].machine_id}",
            )
        else:
            kept[name] = reading
    moved = {
        reading.called: name
        for name, reading in kept.items()
        if name in nodes and reading.called not in ("", name)
    }
    everywhere = replace(renames, nodes={**renames.nodes, **moved})
    return replace(
        survey,
        readings={name: _in_present_names(reading, everywhere, nodes) for name, reading in kept.items()},
        unknown=unknown,
        undeclared=frozenset((*kept, *unknown)) - set(nodes),
        twins=twins,
    )


def _is_stranger(item: Recorded, reading: NodeReading) -> bool:
    """Return whether what answers at a recorded address is not the machine that was recorded there."""
    if item.called in reading.names or not item.machine_id:
        return False
    return reading.facts.machine_id != item.machine_id


def _in_present_names(
    reading: NodeReading, renames: Renames, nodes: Mapping[str, ResolvedNode]
) -> NodeReading:
    here = renames.on_machine(reading.called, reading.node) if reading.node in nodes else renames
    if reading.node not in nodes:  # all of it is to go, so its own names are as good as any
        here = replace(here, nodes={})
    damaged = {here.address(address): why for address, why in reading.damaged_earlier.items()}
    damaged |= {here.address(address): why for address, why in reading.damaged.items()}
    marks = in_present_names(reading.marks, reading.earlier, here)
    return replace(
        reading,
        marks={mark.address: mark for mark in marks},
        damaged={
            address: why for address, why in damaged.items() if address not in {m.address for m in marks}
        },
    )


def identity_findings(
    survey: Survey, nodes: Mapping[str, ResolvedNode], position: Callable[[str], Position]
) -> list[Finding]:
    """Return what there is to say about which machine is which.

    Arguments:
        survey: As `understood` returns it.
        nodes: The declared nodes.
        position: Where the manifest declares a node.
    """
    found = [
        Finding(
            code="SAME_MACHINE",
            severity=Severity.ERROR,
            where=f"{first}, {second}",
            what=f"{first} and {second} are one machine ({position(first)} and {position(second)})",
            why=f"both say machine-id {survey.readings[first].facts.machine_id} and are the same boot",
            fix="declare it once, with all its devices",
            position=position(second),
        )
        for second, first in survey.twins.items()
    ]
    by_id: dict[str, list[str]] = {}
    known = recorded(survey.readings.values())
    for name, reading in survey.readings.items():
        if name not in nodes:
            continue
        by_id.setdefault(reading.facts.machine_id, []).append(name)
        here = (item for item in known if item.stands_at(nodes[name]) and _is_stranger(item, reading))
        if before := next(here, None):
            found.append(
                Finding(
                    code="MACHINE_REPLACED",
                    severity=Severity.WARNING,
                    where=name,
                    what=f"{name} is another machine, or newly installed, since the last apply",
                    why=f"its machine-id was {before.machine_id} and is {reading.facts.machine_id}",
                    fix="if the old one still runs somewhere: hetctl destroy --node ADDRESS --cluster NAME",
                    position=position(name),
                )
            )
    found += [
        Finding(
            code="MACHINE_ID_SHARED",
            severity=Severity.WARNING,
            where=", ".join(names),
            what="different machines have the same machine-id: copies of one installation",
            why=f"it is {machine_id}; a node that gets another name and address is not recognised by it",
            fix="on all but one: rm /etc/machine-id && systemd-machine-id-setup, then reboot",
            position=position(names[1]),
        )
        for machine_id, names in by_id.items()
        if machine_id and len(names) > 1
    ]
    return found


def unreadable_marks(readings: Mapping[str, NodeReading]) -> list[Finding]:
    """Return a finding for each node with marks of ours that only a newer hetctl can read."""
    return [
        Finding(
            code="MARKS_OF_NEWER_VERSION",
            severity=Severity.ERROR,
            where=node,
            what="a newer hetctl has been here: this one cannot read what it left",
            why="; ".join(f"{address} was {why}" for address, why in sorted(reading.newer.items())[:3]),
            fix="use the newer hetctl; pip install --upgrade hetctl",
        )
        for node, reading in sorted(readings.items())
        if reading.newer
    ]


def neighbours(readings: Mapping[str, NodeReading]) -> list[Finding]:
    """Return what there is to say about other clusters on the same nodes; nothing of theirs is touched."""
    nodes: dict[str, list[str]] = {}
    for node, reading in sorted(readings.items()):
        for cluster in sorted({mark.cluster for mark in reading.foreign} | reading.unclear):
            nodes.setdefault(cluster, []).append(node)
    return [
        Finding(
            code="OTHER_CLUSTER",
            severity=Severity.INFO,
            where=", ".join(places),
            what=f"cluster {cluster} has things here too; they are left alone",
            fix=f"if it is this cluster under an earlier name: `renamedFrom: {cluster}` at the top level",
        )
        for cluster, places in sorted(nodes.items())
    ]
