"""Kind `member`: a node's record of the cluster it belongs to.

Each node of a cluster knows all of them, so that one that was deleted from the manifest is still found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetctl.resources.base import Change, Cost, Desired, Mark, Observed, Reason
from hetctl.resources.comparison import change_for, removal
from hetctl.transport.base import Json


def member_address(node: str) -> str:
    """Return the resource address of a node's record."""
    return f"member/{node}"


def recorded_nodes(record: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return how to reach every node that a member record names, those on their way out included."""
    if record is None:
        return {}
    return {**(record.get("nodes") or {}), **(record.get("leaving") or {})}


class MemberKind:
    """The record, which everything else on a node depends on: made first, removed last."""

    name = "member"

    def objects(self, desired: Desired) -> Sequence[Mapping[str, Json]]:  # noqa: ARG002 - the record is read with the marks
        """Return nothing: the record is read together with the marks."""
        return []

    def compare(self, desired: Desired, observed: Observed) -> Change:
        """Return what it takes to have the record as it should be."""
        drift = []
        current = observed.mark is not None and observed.mark.spec_hash == desired.spec_hash
        # a record that is merely out of date differs from the mark as well, which says so better
        if current and not observed.unknown and _record(observed) != dict(desired.spec):
            drift.append(Reason("the record was removed or changed", drift=True))
        return change_for(desired, observed, drift=drift, cost=Cost.NOTHING)

    def remove(self, mark: Mark, observed: Observed) -> Change:
        """Return the removal of everything hetctl keeps about the cluster on the node."""
        return removal(mark, observed)


def _record(observed: Observed) -> Json:
    """Return the record as the node has it; it is read together with the marks."""
    return next((state["members"] for state in observed.states if "members" in state), None)
