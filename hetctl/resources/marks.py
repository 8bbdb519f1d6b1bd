"""Marks: what a node remembers of each resource hetctl made there, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetctl.resources.base import Desired, Mark, digest
from hetctl.transport.base import Json, Session

FORMAT_VERSION = 1

UNFINISHED = "making"
PROVED = "proved"


def mark_to_json(mark: Mark) -> dict[str, Json]:
    """Return the stored form of a mark, with a checksum that tells damage from change."""
    body: dict[str, Json] = {
        "formatVersion": FORMAT_VERSION,
        "cluster": mark.cluster,
        "address": mark.address,
        "kind": mark.kind,
        "node": mark.node,
        "spec": dict(mark.spec),
        "specHash": mark.spec_hash,
        "generation": mark.generation,
        "dependsOn": list(mark.depends_on),
        "gang": mark.gang,
        "objects": [dict(item) for item in mark.objects],
        "facts": dict(mark.facts),
    }
    return {**body, "checksum": digest(body)}


def newer_format(value: Mapping[str, Any]) -> str:
    """Return why only a newer hetctl can read a stored mark; empty for one that this version should read."""
    version = value.get("formatVersion")
    if isinstance(version, int) and version > FORMAT_VERSION:
        return f"written in format {version}, this version reads {FORMAT_VERSION}"
    return ""


def mark_from_json(value: Mapping[str, Any]) -> Mark | str:
    """Return the mark, or why the stored form cannot be trusted."""
    if "damaged" in value:
        return f"unreadable: {value['damaged']}"
    if value.get("formatVersion") != FORMAT_VERSION:
        return f"written in format {value.get('formatVersion')!r}, this version reads {FORMAT_VERSION}"
    body = {key: item for key, item in value.items() if key != "checksum"}
    if value.get("checksum") != digest(body):
        return "its checksum does not fit: it was edited or cut off"
    try:
        return Mark(
            cluster=value["cluster"],
            address=value["address"],
            kind=value["kind"],
            node=value["node"],
            spec=value["spec"],
            spec_hash=value["specHash"],
            generation=value["generation"],
            depends_on=tuple(value["dependsOn"]),
            gang=value["gang"],
            objects=tuple(value["objects"]),
            facts=value["facts"],
        )
    except KeyError as error:
        return f"the key {error} is missing"


def mark_for(
    desired: Desired,
    *,
    cluster: str,
    generation: int,
    state: str,
    objects: tuple[Mapping[str, Json], ...] = (),
    facts: Mapping[str, Json] | None = None,
) -> Mark:
    """Return the mark of a resource that is being made (`UNFINISHED`) or was proved (`PROVED`)."""
    return Mark(
        cluster=cluster,
        address=desired.address,
        kind=desired.kind,
        node=desired.node,
        spec=desired.spec,
        spec_hash=desired.spec_hash,
        generation=generation,
        depends_on=desired.depends_on,
        gang=desired.gang,
        objects=objects,
        facts={**(facts or {}), "state": state},
    )


def is_finished(mark: Mark) -> bool:
    """True when the resource was proved after it was made."""
    return mark.facts.get("state") == PROVED


def store(session: Session, mark: Mark) -> None:
    """Write a mark on its node."""
    session.call("write_mark", {"cluster": mark.cluster, "address": mark.address, "mark": mark_to_json(mark)})


def erase(session: Session, mark: Mark) -> None:
    """Remove a mark from its node, after everything it described is gone; under every name it lies there."""
    for each in (mark, mark.stored):
        if each is not None:
            session.call("remove_mark", {"cluster": each.cluster, "address": each.address})
