"""llama.cpp's placement rule, what it was seen to do, and the arguments that steer it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetctl.fit.placement import (
    GIB,
    Capacity,
    Layout,
    SplitArguments,
    auto_layers,
    place,
    split_arguments,
)


@pytest.mark.parametrize(
    ("blocks", "gpu_layers", "shares", "layers", "output"),
    [
        # ten layers, seen with -lv 5
        (10, 99, [3, 1], [0] * 9 + [1], 1),
        (10, 4, [1, 1], [None] * 7 + [0, 0, 1], 1),
        (10, 99, [0, 1], [1] * 10, 1),
        (10, 99, [1, 1], [0] * 6 + [1] * 4, 1),
        # eighteen layers, b11434
        (18, 15, [8, 7], [None] * 4 + [0] * 8 + [1] * 6, 1),
        (18, 19, [18, 1], [0] * 18, 1),
        (18, -1, [1], [0] * 18, 0),
        (18, 1, [1], [None] * 18, 0),
        (18, 0, [1], [None] * 18, None),
        (18, 99, [], [None] * 18, None),
    ],
)
def test_placement_is_what_llama_cpp_does(
    blocks: int, gpu_layers: int, shares: list[float], layers: list[int | None], output: int | None
) -> None:
    assert place(blocks, gpu_layers, shares) == Layout(tuple(layers), output)


@settings(deadline=None, max_examples=1000)
@given(
    layers=st.lists(st.integers(0, 120), min_size=1, max_size=16),
    cpu=st.integers(0, 120),
)
def test_every_layer_lands_where_it_was_declared(layers: list[int], cpu: int) -> None:
    blocks = sum(layers) + cpu
    arguments = split_arguments(layers, cpu, blocks)
    wanted = [None] * cpu + [index for index, count in enumerate(layers) for _ in range(count)]
    layout = place(blocks, arguments.gpu_layers, arguments.tensor_split)
    assert layout == Layout(tuple(wanted), len(layers) - 1)


def test_without_devices_nothing_is_offloaded() -> None:
    assert split_arguments([], 18, 18) == SplitArguments((), 0)


@pytest.mark.parametrize(("layers", "cpu"), [([10, 7], 0), ([10, 8], 1), ([19, -1], 0), ([], 17)])
def test_counts_that_do_not_add_up_are_refused(layers: list[int], cpu: int) -> None:
    with pytest.raises(ValueError, match="18 layers"):
        split_arguments(layers, cpu, 18)


@pytest.mark.parametrize(
    ("capacities", "blocks", "expected"),
    [
        ([Capacity(16 * GIB), Capacity(11 * GIB)], 48, (29, 19)),
        ([Capacity(16 * GIB), Capacity(11 * GIB, reserve=0)], 48, (28, 20)),
        ([Capacity(24 * GIB), Capacity(24 * GIB)], 33, (17, 16)),
        ([Capacity(None), Capacity(None)], 18, (9, 9)),
        ([Capacity(None), Capacity(None), Capacity(None)], 20, (7, 7, 6)),
        ([Capacity(9 * GIB), Capacity(17 * GIB), Capacity(None)], 32, (8, 16, 8)),
        ([Capacity(8 * GIB), Capacity(GIB)], 30, (30, 0)),
        ([Capacity(GIB), Capacity(GIB)], 7, (4, 3)),
        ([Capacity(80 * GIB)], 61, (61,)),
    ],
)
def test_automatic_layers(capacities: list[Capacity], blocks: int, expected: tuple[int, ...]) -> None:
    assert auto_layers(capacities, blocks) == expected


CAPACITIES = st.builds(
    Capacity,
    memory=st.one_of(st.none(), st.integers(0, 200 * GIB)),
    reserve=st.integers(0, 4 * GIB),
)


@settings(deadline=None)
@given(capacities=st.lists(CAPACITIES, min_size=1, max_size=16), blocks=st.integers(1, 200))
def test_automatic_layers_add_up_and_follow_memory(capacities: list[Capacity], blocks: int) -> None:
    layers = auto_layers(capacities, blocks)
    assert sum(layers) == blocks
    assert min(layers) >= 0
    assert layers == auto_layers(list(capacities), blocks)
    gpus = [
        (max(each.memory - each.reserve, 0), count)
        for each, count in zip(capacities, layers, strict=True)
        if each.memory is not None
    ]
    for more, many in gpus:
        for less, few in gpus:
            assert more <= less or many >= few
