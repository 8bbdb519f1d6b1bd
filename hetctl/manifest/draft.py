"""All documents as one cluster, as far as their shape allows, so that cross-checks can go on past errors.

An entry with a shape error is left out whole and remembered: what refers to it is not reported again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hetctl.errors import Problem
from hetctl.manifest.cluster import Cluster, ManifestFile
from hetctl.manifest.nodes import Host
from hetctl.manifest.problem_list import ProblemList
from hetctl.manifest.shape import KINDS
from hetctl.manifest.source import KeyPath, Source
from hetctl.manifest.tree import Keys
from hetctl.manifest.wording import named, quoted

_ONCE: Final = ("name", "ssh", "mirrors", "downloads", "offline", "findings", "renamedFrom")
"""Top-level keys that stand in one file only."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A cluster that may still be wrong.

    Arguments:
        cluster: What could be understood.
        broken: Sections, and entries of sections, that were left out because of their shape.
        problems: Where checks add what they find.
    """

    cluster: Cluster
    broken: frozenset[KeyPath]
    problems: ProblemList

    @property
    def hosts(self) -> Mapping[str, Host]:
        """Nodes and virtual machines by name."""
        return {**self.cluster.vms, **self.cluster.nodes}

    def doubtful(self, section: str, name: str) -> bool:
        """Return whether `name` may be declared in `section` but was left out."""
        return (section,) in self.broken or (section, name) in self.broken

    def doubtful_host(self, name: str) -> bool:
        """Return whether `name` may be a node or virtual machine that was left out."""
        return self.doubtful("nodes", name) or self.doubtful("vms", name)


def merge(documents: Sequence[tuple[Keys, Any]], shape_problems: Iterable[Problem], source: Source) -> Draft:
    """Put the documents of a manifest together.

    Arguments:
        documents: Tree and plain data (without x- keys) of each.
        shape_problems: What is wrong with their shape.
        source: Where things stand.
    """
    problems = ProblemList(source)
    broken = frozenset(_unit(problem.path) for problem in shape_problems if problem.path)
    merged: dict[str, Any] = {"apiVersion": "hetctl/v1", "kind": "Cluster"}
    first: dict[KeyPath, Keys] = {}
    for tree, data in documents:
        for key, value in _sound(data, broken).items():
            if key in _ONCE and key in merged:
                _twice(problems, tree, first[(key,)], (key,), f"the key {quoted(key)} stands in two files")
            elif key in KINDS:
                section = merged.setdefault(key, {})
                for name, entry in value.items():
                    if name in section:
                        what = named(KINDS[key], name)
                        _twice(problems, tree, first[(key, name)], (key, name), f"{what} is declared twice")
                    else:
                        section[name] = entry
                        first[(key, name)] = tree
            else:
                merged[key] = value
                first[(key,)] = tree
    if "name" not in merged:
        if ("name",) not in broken:
            problems.add("E203", "the cluster has no name", (), hint="add `name: …` to one file")
        merged["name"] = "unnamed"
    return Draft(Cluster.of(ManifestFile.model_validate(merged), source), broken, problems)


def _unit(path: KeyPath) -> KeyPath:
    """Return the part of a manifest that a shape error at `path` makes unusable."""
    return path[:2] if len(path) > 1 and path[0] in KINDS else path[:1]


def _sound(data: Any, broken: frozenset[KeyPath]) -> dict[str, Any]:
    """Return the sections and entries of a document whose shape is right."""
    known = {str(field.alias) for field in ManifestFile.model_fields.values()} - {"apiVersion", "kind"}
    sound: dict[str, Any] = {}
    for key, value in data.items():
        if key not in known or (key,) in broken:
            continue
        if key in KINDS:
            sound[key] = {name: entry for name, entry in value.items() if (key, name) not in broken}
        else:
            sound[key] = value
    return sound


def _twice(problems: ProblemList, here: Keys, there: Keys, path: KeyPath, message: str) -> None:
    """Report the second declaration, pointing back at the first."""
    first = Source([there]).position(path, key=True)
    span = Source([here]).span(path, key=True)
    problems.found.append(
        problems.source.problem_at(
            "E201" if len(path) > 1 else "E202",
            f"{message}, first at {first}",
            span,
            hint="keep one of them",
            path=path,
        )
    )
