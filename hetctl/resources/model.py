"""Kind `model`: the weights of one model on the node of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetctl.resources.base import Change, Cost, Desired, Mark, Observed
from hetctl.resources.comparison import change_for, removal
from hetctl.resources.unit import file_drift
from hetctl.transport.base import Json


class ModelKind:
    """A GGUF file under a directory named by its content."""

    name = "model"

    def objects(self, desired: Desired) -> Sequence[Mapping[str, Json]]:
        """Return the file."""
        return [{"type": "file", "path": desired.spec["path"]}]

    def compare(self, desired: Desired, observed: Observed) -> Change:
        """Return what it takes to have the file whole on the node."""
        drift = []
        if observed.mark is not None and not observed.unknown:
            for item, state in zip(observed.mark.objects, observed.states, strict=False):
                drift += file_drift(item["path"], state, item.get("expect") or {})
        return change_for(
            desired,
            observed,
            drift=drift,
            cost=Cost.MODEL_RELOAD if drift else Cost.NOTHING,
            rendered=("path", "directory"),
            details=(str(desired.spec["summary"]),),
        )

    def remove(self, mark: Mark, observed: Observed) -> Change:
        """Return the removal of the file."""
        return removal(mark, observed)
