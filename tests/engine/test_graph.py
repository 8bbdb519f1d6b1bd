from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetctl.engine.graph import DependencyCycle, dependency_order


def test_keeps_the_given_order_where_nothing_asks_for_another() -> None:
    assert dependency_order(["c", "a", "b"], {}) == ["c", "a", "b"]
    assert dependency_order(["c", "a", "b"], {"c": ["b"]}) == ["a", "b", "c"]


def test_ignores_what_is_not_there() -> None:
    assert dependency_order(["a"], {"a": ["elsewhere"]}) == ["a"]


def test_names_the_circle_in_reading_order() -> None:
    with pytest.raises(DependencyCycle) as caught:
        dependency_order(["a", "b", "c", "d"], {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]})
    path = caught.value.path
    assert path[0] == path[-1]
    assert len(path) == 4
    wanted = {("a", "b"), ("b", "c"), ("c", "a")}
    assert set(pairwise(path)) == wanted
    assert caught.value.why == " -> ".join(map(str, path))


@st.composite
def acyclic(draw: st.DrawFn) -> tuple[list[int], dict[int, list[int]]]:
    size = draw(st.integers(0, 12))
    rank = draw(st.permutations(range(size)))
    edges = {
        name: [other for other in range(size) if rank[other] < rank[name] and draw(st.booleans())]
        for name in range(size)
    }
    return list(draw(st.permutations(range(size)))), edges


@given(acyclic())
def test_everything_comes_after_what_it_depends_on(graph: tuple[list[int], dict[int, list[int]]]) -> None:
    names, edges = graph
    order = dependency_order(names, edges)
    assert sorted(order) == sorted(names)
    place = {name: index for index, name in enumerate(order)}
    assert all(place[other] < place[name] for name, others in edges.items() for other in others)
    assert dependency_order(names, edges) == order
