"""Dependency order: stable, and a cycle is named by its path."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from hetctl.errors import HetctlError

Name = TypeVar("Name", bound=Hashable)


class DependencyCycle(HetctlError):  # noqa: N818 - the name says what holds, as in hetctl.errors
    """Things depend on each other in a circle, so none of them can come first.

    Arguments:
        path: The members of the circle, each depending on the next; the first one again at the end.
    """

    def __init__(self, path: Sequence[object]) -> None:
        super().__init__(
            "these depend on each other in a circle",
            why=" -> ".join(str(member) for member in path),
            fix="take one of these dependencies out",
        )
        self.path = tuple(path)


def dependency_order(names: Sequence[Name], depends_on: Mapping[Name, Collection[Name]]) -> list[Name]:
    """Return `names` so that each comes after what it depends on, otherwise in the order given.

    Arguments:
        names: Unique.
        depends_on: For a name, what comes first; whatever is not in `names` is ignored.

    Raises:
        DependencyCycle: There is no such order.
    """
    position = {name: index for index, name in enumerate(names)}
    sorter: TopologicalSorter[Name] = TopologicalSorter(
        {name: [other for other in depends_on.get(name, ()) if other in position] for name in names}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        # graphlib lists each member before the one that depends on it; people read it the other way round.
        raise DependencyCycle(list(reversed(error.args[1]))) from error
    ready: list[int] = []
    order: list[Name] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(ready, position[name])
        name = names[heapq.heappop(ready)]
        order.append(name)
        sorter.done(name)
    return order
