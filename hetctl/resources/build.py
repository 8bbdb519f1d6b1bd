"""Kind `build`: one llama.cpp build in place on one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetctl.resources.base import Change, Cost, Desired, Mark, Observed, Reason
from hetctl.resources.comparison import change_for, removal
from hetctl.transport.base import Json

PARTS = ("server", "worker", "bench", "fit")
"""Programs of llama.cpp that are built, as the catalogue calls them."""


class BuildKind:
    """A directory of binaries and libraries, immutable under its key."""

    name = "build"

    def objects(self, desired: Desired) -> Sequence[Mapping[str, Json]]:
        """Return the directory, without a file list as long as no mark has one."""
        return [{"type": "file", "path": desired.spec["path"]}]

    def compare(self, desired: Desired, observed: Observed) -> Change:
        """Return what it takes to have this build whole on the node."""
        drift = _drift(observed)
        # another build lies beside; only one that is mended where it lies takes the files from its processes
        return change_for(
            desired,
            observed,
            drift=drift,
            cost=Cost.MODEL_RELOAD if drift else Cost.NOTHING,
            rendered=("path", "key", "toolchain", "options", "summary", "number", "identity"),
            details=(str(desired.spec["summary"]),),
        )

    def remove(self, mark: Mark, observed: Observed) -> Change:
        """Return the removal of the build."""
        return removal(mark, observed)


def _drift(observed: Observed) -> list[Reason]:
    if observed.mark is None or observed.unknown:
        return []
    reasons = []
    for item, state in zip(observed.mark.objects, observed.states, strict=False):
        if item.get("type") != "tree":
            continue
        path = item["path"]
        if not state.get("exists"):
            return [Reason(f"{path} is missing", drift=True)]
        for what in ("missing", "different", "extra"):
            names = state.get(what) or []
            if names:
                shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004 - three names tell enough
                reasons.append(Reason(f"{what} in {path}: {shown}", drift=True))
    return reasons
