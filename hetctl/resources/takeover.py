"""Giving what stands on a node another name: its mark moves, and what it no longer uses goes.

The mark under the earlier name stays until everything that stood under that name is gone, so that whatever
happens in between, nothing is left that no mark knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hetctl.resources import firewall, marks
from hetctl.resources.base import Change, Mark, StepContext
from hetctl.resources.work import Work, standing, take_unit_away, wanted
from hetctl.transport.base import Json, Session

KEPT_SUFFIX = ".previous"
"""Ends the name of the file that keeps a secret of the previous generation."""


def units_of(spec: Mapping[str, Json]) -> dict[str, str]:
    """Return the units of a resource with the paths of their files."""
    found = {str(spec["unit"]): str(spec["unit_path"])} if "unit" in spec else {}
    if watch := spec.get("watch"):
        found[str(watch["unit"])] = str(watch["unit_path"])
    return found


def files_of(spec: Mapping[str, Json]) -> list[str]:
    """Return the files besides units that are a resource's alone: its secrets and its rules."""
    secrets = sorted(str(path) for path in spec.get("secret_files", {}).values())
    rules = [str(spec["rules_path"])] if "rules_path" in spec else []
    return [*rules, *(path for secret in secrets for path in (secret, f"{secret}{KEPT_SUFFIX}"))]


def rename(work: Work, context: StepContext, change: Change) -> None:
    """Remember something that stays as it is under its present name."""
    session, mark, desired = context.sessions[change.node], standing(change), wanted(change)
    renamed = marks.mark_for(
        desired,
        cluster=work.cluster,
        generation=mark.generation,
        state=marks.PROVED,
        objects=mark.objects,
        facts=mark.facts,
    )
    marks.store(session, renamed)
    settle(work, context, change)


def standing_before(change: Change) -> Mark | None:
    """Return the mark of what a failed switch goes back to; None when nothing was proved there before.

    Where units have other names now, that is the mark under the earlier name; it still lies there.
    """
    mark = change.mark
    if mark is None:
        return None
    if mark.stored is not None and _other_units(change, mark.stored):
        return replace(mark.stored, node=change.node) if marks.is_finished(mark.stored) else None
    return mark if marks.is_finished(mark) else None


def undo_rename(work: Work, context: StepContext, change: Change) -> None:
    """After a switch went back: leave one mark, and nothing that was made under a name that does not hold."""
    session, mark, desired = context.sessions[change.node], change.mark, change.desired
    if mark is None or mark.stored is None or desired is None:
        return
    stored = mark.stored
    if not _other_units(change, stored):
        _forget(work, session, change, stored)
        return
    take_away(session, desired.spec, kept=stored.spec)
    if (stored.cluster, stored.address) != (work.cluster, change.address):
        session.call("remove_mark", {"cluster": work.cluster, "address": change.address})


def _other_units(change: Change, stored: Mark) -> bool:
    return change.desired is None or units_of(stored.spec) != units_of(change.desired.spec)


def settle(work: Work, context: StepContext, change: Change) -> None:
    """Remove what stood under an earlier name and is not used any more, then the mark of that name."""
    session, stored = context.sessions[change.node], standing(change).stored
    if stored is None:
        return
    take_away(session, stored.spec, kept=wanted(change).spec)
    if change.kind == "member":
        _settle_member(work, session, stored)
    else:
        _forget(work, session, change, stored)


def _forget(work: Work, session: Session, change: Change, stored: Mark) -> None:
    """Remove the mark of an earlier name; one that only speaks of other names was replaced where it lies."""
    if (stored.cluster, stored.address) != (work.cluster, change.address):
        session.call("remove_mark", {"cluster": stored.cluster, "address": stored.address})


def take_away(session: Session, spec: Mapping[str, Json], *, kept: Mapping[str, Json]) -> None:
    """Remove the units, tables and files that a spec describes and another one does not name."""
    staying = units_of(kept)
    for unit, path in units_of(spec).items():
        if unit not in staying:
            take_unit_away(session, unit, path)
    if "table" in spec and spec["table"] != kept.get("table"):
        firewall_gone(session, str(spec["table"]))
    files = [path for path in files_of(spec) if path not in files_of(kept)]
    if files:
        above = sorted({path.rpartition("/")[0] for path in files})
        session.call("remove", {"paths": files, "empty_directories": above})


def firewall_gone(session: Session, table: str) -> None:
    """Remove a packet filter table from the kernel; it may be gone already."""
    name = f"table {firewall.FAMILY} {table}"
    session.call("nft", {"script": f"{name}\ndelete {name}\n"})


def _settle_member(work: Work, session: Session, stored: Mark) -> None:
    """Forget what a node or its cluster was called, once nothing else there has a mark of that name.

    Until then it is by this mark that the others are understood.
    """
    found = session.call("marks")["clusters"].get(stored.cluster) or {}
    others = set(found.get("marks") or {}) - {stored.address}
    if stored.cluster != work.cluster:
        if not others:
            session.call("remove_cluster", {"cluster": stored.cluster, "last": stored.address})
        return
    name = stored.address.partition("/")[2]
    if not any(address.partition("@")[2].partition(".")[0] == name for address in others):
        session.call("remove_mark", {"cluster": stored.cluster, "address": stored.address})
