"""What all kinds share when they compare what is wanted with what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hetctl.errors import Position
from hetctl.resources import marks
from hetctl.resources.base import Action, Change, Cost, Desired, Mark, Observed, Reason, changed_keys
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
    return make(Action.UPDATE, reasons, cost) if reasons else make(Action.NONE, [])


def spec_reasons(mark: Mark, desired: Desired, *, rendered: frozenset[str]) -> list[Reason]:
    """Return how the wanted spec differs from the applied one, with the manifest line of each difference."""
    if mark.spec_hash == desired.spec_hash:
        return []
    old, new = flat(mark.spec), flat(desired.spec)
    keys = changed_keys(old, new)
    telling = [key for key in keys if key.split(".")[0] not in rendered]
    if not telling:
        return [Reason("rendered differently by this version of hetctl")]
    return [
        Reason(f"{key.split('.')[-1]} {show(old.get(key))} -> {show(new.get(key))}", where(desired, key))
        for key in telling
    ]


def flat(spec: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    """Return nested maps as one map with dotted keys; lists stay whole."""
    result: dict[str, Json] = {}
    for key, value in spec.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            result.update(flat(value, f"{name}."))
        else:
            result[name] = value
    return result


def where(desired: Desired, key: str) -> Position | None:
    """Return the manifest line that a key of the spec came from."""
    return (
        desired.explain.get(key) or desired.explain.get(key.rsplit(".", maxsplit=1)[-1]) or desired.position
    )


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
