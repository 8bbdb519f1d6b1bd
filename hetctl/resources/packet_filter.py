"""Putting packet filters in force, and changing them together with the placement they guard.

While a placement switches, a port is open to nobody who may not use it before or after: ports that only one
of the two generations has keep the rule of that generation, and a port of both changes its rule while nobody
listens on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetctl.errors import OperationFailed, ProofFailed
from hetctl.resources import firewall, marks
from hetctl.resources.base import Change, StepContext
from hetctl.resources.firewall import PortRule, render_ruleset
from hetctl.resources.takeover import firewall_gone, standing_before, undo_rename
from hetctl.resources.work import Work, begin, finish, put_text, standing, systemd, take_unit_away, wanted
from hetctl.transport.base import Json, Session

Ports = Mapping[str, Sequence[str]]
"""Port as text to the sources that may reach it."""


def ports_before(change: Change) -> Ports:
    """Return what the last proved generation of a filter guards; nothing when there is none."""
    mark = change.mark
    if mark is None:
        return {}
    previous = mark.facts.get("previous")
    if marks.is_finished(mark) or not previous:
        found: Ports = mark.spec["ports"]
        return found
    earlier: Ports = previous["spec"]["ports"]
    return earlier


def moves(change: Change) -> bool:
    """Return whether a filter changes which ports it guards or for whom."""
    return bool(ports_before(change)) and ports_before(change) != wanted(change).spec["ports"]


def turns(change: Change) -> bool:
    """Return whether a port of both generations is for others than before."""
    before, after = ports_before(change), wanted(change).spec["ports"]
    return any(port in before and list(before[port]) != list(sources) for port, sources in after.items())


def between(before: Ports, after: Ports, *, turned: bool) -> list[PortRule]:
    """Return the rules while one generation goes and the other comes.

    Arguments:
        before: Of the generation that goes.
        after: Of the one that comes.
        turned: Ports of both are already for those who may use them afterwards.
    """
    merged = {**before, **after} if turned else {**after, **before}
    return [PortRule(int(port), tuple(sources)) for port, sources in sorted(merged.items())]


def guard(work: Work, context: StepContext, change: Change) -> None:
    """Guard the ports of both generations before anything stops."""
    session, spec = context.sessions[change.node], wanted(change).spec
    begin(work, session, change)
    _load(session, spec, _rules_between(change, turned=False))


def turn(work: Work, context: StepContext, change: Change) -> None:  # noqa: ARG001 - all steps have one signature
    """Give ports of both generations to those who may use them afterwards; nobody listens on them now."""
    session, spec = context.sessions[change.node], wanted(change).spec
    _load(session, spec, _rules_between(change, turned=True))
    if change.mark is not None and change.mark.spec["table"] != spec["table"]:
        firewall_gone(session, str(change.mark.spec["table"]))  # its rules would still be obeyed


def _rules_between(change: Change, *, turned: bool) -> str:
    spec = wanted(change).spec
    return render_ruleset(spec["table"], between(ports_before(change), spec["ports"], turned=turned))


def raise_filter(work: Work, context: StepContext, change: Change) -> None:
    """Put the rules of a filter in force, now and at each boot."""
    session, spec = context.sessions[change.node], wanted(change).spec
    begin(work, session, change)
    made = _load(session, spec, spec["rules"])
    finish(work, session, change, objects=firewall.observed_objects(spec, made))


def restore(work: Work, context: StepContext, change: Change) -> None:
    """Put back the rules of the last proved generation; one that did not exist before stays as it is."""
    mark = standing_before(change)
    if mark is None:
        return
    session = context.sessions[change.node]
    _load(session, mark.spec, mark.spec["rules"])
    marks.store(session, mark)
    undo_rename(work, context, change)


def _load(session: Session, spec: Mapping[str, Json], rules: str) -> dict[str, Mapping[str, Json]]:
    """Write rules and their unit, load them, and prove that they are in the kernel."""
    made = {
        spec["rules_path"]: put_text(session, spec["rules_path"], rules),
        spec["unit_path"]: put_text(session, spec["unit_path"], spec["unit_text"]),
    }
    answer = session.call("nft", {"script": rules})
    if answer["exit"] != 0:
        raise OperationFailed("nft refused the rules", where=session.node, why=str(answer["stderr"]))
    systemd(session, "daemon-reload")
    systemd(session, "enable", spec["unit"])
    systemd(session, "start", spec["unit"])
    table = {"type": "nft_table", "family": firewall.FAMILY, "name": spec["table"]}
    state = session.call("observe", {"objects": [table]})["states"][0]
    if not state.get("exists"):
        raise ProofFailed(
            f"the table {spec['table']} is not in the kernel",
            where=session.node,
            why=str(state.get("unavailable") or ""),
        )
    made["table"] = state
    return made


def lower_filter(work: Work, context: StepContext, change: Change) -> None:
    """Remove a packet filter table, its unit and its file, unless something declared owns them now."""
    session, mark = context.sessions[change.node], standing(change)
    spec = mark.spec
    if spec["unit"] in work.claimed.get(change.node, frozenset()):
        marks.erase(session, mark)
        return
    take_unit_away(session, spec["unit"], spec["unit_path"])
    table = f"table {firewall.FAMILY} {spec['table']}"
    answer = session.call("nft", {"script": f"{table}\ndelete {table}\n"})
    if answer["exit"] != 0:
        raise OperationFailed(
            "nft refused to delete the table", where=session.node, why=str(answer["stderr"])
        )
    session.call("remove", {"paths": [spec["rules_path"]], "empty_directories": []})
    marks.erase(session, mark)
