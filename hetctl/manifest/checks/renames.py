"""`renamedFrom`: each old name is free now, and one thing's only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetctl.manifest.draft import Draft
from hetctl.manifest.source import KeyPath
from hetctl.manifest.wording import quoted

KEY = "renamedFrom"


def check_renames(draft: Draft) -> None:
    """Check the old names of the cluster and of everything in it."""
    cluster = draft.cluster
    hosts: dict[KeyPath, Any] = {("nodes", name): node for name, node in cluster.nodes.items()}
    hosts |= {("vms", name): vm for name, vm in cluster.vms.items()}
    _check(draft, hosts)
    sections: Mapping[str, Mapping[str, Any]] = {
        "builds": cluster.builds,
        "models": cluster.models,
        "placements": cluster.placements,
    }
    for section, items in sections.items():
        _check(draft, {(section, name): item for name, item in items.items()})
    if cluster.renamed_from is not None and cluster.renamed_from == cluster.name:
        draft.problems.add(
            "E240", f"the cluster is called {quoted(cluster.name)} still", (KEY,), hint=f"remove `{KEY}`"
        )


def _check(draft: Draft, items: Mapping[KeyPath, Any]) -> None:
    declared = {str(path[1]) for path in items}
    seen: dict[str, str] = {}
    for path, item in items.items():
        old = item.renamed_from
        if old is None:
            continue
        if old in declared:
            draft.problems.add(
                "E240",
                f"{quoted(old)} is declared, so {quoted(str(path[1]))} cannot have been it",
                (*path, KEY),
                hint=f"remove `{KEY}` once the rename was applied",
            )
        elif old in seen:
            draft.problems.add(
                "E240",
                f"{quoted(seen[old])} and {quoted(str(path[1]))} cannot both have been {quoted(old)}",
                (*path, KEY),
                hint="keep it where it is right",
            )
        seen.setdefault(old, str(path[1]))
