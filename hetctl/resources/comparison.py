"""What all kinds share when they compare what is wanted with what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hetctl.errors import Position
from hetctl.resources import marks
from hetctl.resources.base import Action, Change, Cost, Desired, Mark, Observed, Reason
from hetctl.transport.base import Json


def change_for(
    desired: Desired,
    observed: Observed,
    *,
    drift: Sequence[Reason],
    cost: Cost,
    create_cost: Cost = Cost.NOTHING,
    rendered: Iterable[str] = (),
    details: Sequence[str] = (),
) -> Change:
    """Return the change of a resource from its mark and from how the node drifted.

    Arguments:
        desired: What is wanted.
        observed: What is there.
        drift: How the node differs from what was applied.
        cost: What an update interrupts.
        create_cost: What creating it interrupts.
        rendered: Keys of the spec that follow from the others; named only when they alone changed.
        details: Lines shown with the change.
    """

    def make(action: Action, reasons: Sequence[Reason], price: Cost = Cost.NOTHING) -> Change:
        return Change(
            address=desired.address,
            kind=desired.kind,
            node=desired.node,
            action=action,
            desired=desired,
            mark=observed.mark,
            reasons=tuple(reasons),
            cost=price,
            details=tuple(details) if action is not Action.NONE else (),
            gang=desired.gang,
            depends_on=desired.depends_on,
        )

    if observed.unknown:
        return make(Action.UNKNOWN, [Reason(observed.unknown)])
    mark = observed.mark
    if mark is None:
        return make(Action.CREATE, [Reason("not there yet", desired.position)], create_cost)
    reasons = spec_reasons(mark, desired, rendered=frozenset(rendered))
    if not marks.is_finished(mark):
        reasons = [Reason("the last apply did not finish it", drift=True), *reasons]
    reasons += drift
    if mark.stored is None:
        return make(Action.UPDATE, reasons, cost) if reasons else make(Action.NONE, [])
    renamed = Reason(f"was {_named(mark.stored, desired)}", desired.position)
    return make(Action.UPDATE, [renamed, *reasons], cost) if reasons else make(Action.RENAME, [renamed])


def _named(stored: Mark, desired: Desired) -> str:
    """Return what a resource was called; an address that did not change is told apart by its cluster."""
    if stored.address != desired.address:
        return stored.address
    return f"of cluster {stored.cluster}"


Path = tuple[str, ...]
"""Keys that lead to a value of a spec."""

NAMELESS = frozenset({"settings", "environment", "layers", "ports", "nodes", "leaving"})
"""Parts of a spec whose name a reason leaves out or words differently."""


def spec_reasons(mark: Mark, desired: Desired, *, rendered: frozenset[str]) -> list[Reason]:
    """Return how the wanted spec differs from the applied one, with the manifest line of each difference."""
    if mark.spec_hash == desired.spec_hash:
        return []
    old, new = flat(mark.spec), flat(desired.spec)
    missing: Json = object()
    keys = sorted(key for key in {*old, *new} if old.get(key, missing) != new.get(key, missing))
    telling = [key for key in keys if key[0] not in rendered] or _consequences(keys, desired)
    if not telling:
        return [Reason("rendered differently by this version of hetctl")]
    return [*_whole(mark.spec, desired), *_each(old, new, telling, desired)]


def _whole(old: Mapping[str, Json], desired: Desired) -> list[Reason]:
    """Return the nodes that a record gained or lost, each in a few words."""
    reasons = []
    for key, gained, lost in (
        ("nodes", "joins", "is not declared any more"),
        ("leaving", "leaves", "has left"),
    ):
        before, after = old.get(key) or {}, desired.spec.get(key) or {}
        reasons += [
            Reason(f"{node} {gained}", where(desired, (key, node))) for node in after.keys() - before.keys()
        ]
        reasons += [Reason(f"{node} {lost}", desired.position) for node in before.keys() - after.keys()]
    return sorted(reasons, key=lambda reason: reason.text)


def _each(
    old: Mapping[Path, Json], new: Mapping[Path, Json], keys: Sequence[Path], desired: Desired
) -> list[Reason]:
    """Return what became of each value, those of nodes that a record gained or lost excepted."""
    members = [(path[0], path[1]) for path in (*old, *new) if path[0] in NODE_MAPS and len(path) > 1]
    both = {
        member
        for member in members
        if any(path[:2] == member for path in old) and any(path[:2] == member for path in new)
    }
    return [
        Reason(f"{label(key)} {show(old.get(key))} -> {show(new.get(key))}", where(desired, key))
        for key in keys
        if key[0] not in NODE_MAPS or key[:2] in both
    ]


NODE_MAPS = ("nodes", "leaving")
"""Keys of a member record that hold nodes by name."""


def _consequences(keys: Sequence[Path], desired: Desired) -> list[Path]:
    """Return of what was rendered differently the first thing that a person can place."""
    return [
        key for name in TELLING_CONSEQUENCES for key in keys if key[0] == name and desired.explain.get(name)
    ][:1]


TELLING_CONSEQUENCES = ("build", "executable", "path", "model_path", "secret_files", "endpoints")
"""What is rendered and says why, where nothing else does, best first."""


def flat(spec: Mapping[str, Json], prefix: Path = ()) -> dict[Path, Json]:
    """Return nested maps as one map; lists stay whole."""
    result: dict[Path, Json] = {}
    for key, value in spec.items():
        path = (*prefix, key)
        if isinstance(value, dict):
            result.update(flat(value, path))
        else:
            result[path] = value
    return result


def label(key: Path) -> str:
    """Return what people call a value of a spec: as the manifest does, where it can be."""
    match key:
        case ("settings", "layersAuto"):
            return "layers auto"
        case ("settings", "layers", device):
            return f"layers of {device}"
        case ("environment", variable):
            return f"env {variable}"
        case ("ports", port):
            return f"port {port} open to"
        case ("nodes" | "leaving", node, what):
            return f"{what} of {node}"
        case ("secret_files", _):
            return "apiKeys in"
    return ".".join(part for part in key if part not in NAMELESS)


def where(desired: Desired, key: Path) -> Position | None:
    """Return the manifest line that a value of the spec came from."""
    for length in range(len(key), 0, -1):
        if position := desired.explain.get(".".join(key[:length])):
            return position
    return desired.explain.get(key[-1]) or desired.position


def show(value: Json) -> str:
    """Return a value of a spec as a short phrase."""
    if value is None:
        return "(none)"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ",".join(show(item) for item in value) or "(none)"
    return str(value)


def removal(mark: Mark, observed: Observed, *, cost: Cost = Cost.NOTHING) -> Change:
    """Return the change that removes what a mark describes; UNKNOWN when its node could not be read."""
    unknown = bool(observed.unknown)
    return Change(
        address=mark.address,
        kind=mark.kind,
        node=mark.node,
        action=Action.UNKNOWN if unknown else Action.REMOVE,
        mark=mark,
        reasons=(Reason(observed.unknown if unknown else "not declared any more"),),
        cost=Cost.NOTHING if unknown else cost,
        gang=mark.gang,
        depends_on=mark.depends_on,
    )
