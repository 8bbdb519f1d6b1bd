"""Facts about model files."""

from __future__ import annotations

import pytest

from hetctl.catalog.formats import architectures, format_named, number_formats, tensor_places


@pytest.mark.parametrize(
    ("name", "count", "size"),
    [
        ("f32", 4, 16),
        ("f16", 4, 8),
        ("q8_0", 64, 68),
        ("q4_0", 32, 18),
        ("q4_K", 256, 144),
        ("mxfp4", 32, 17),
    ],
)
def test_sizes(name: str, count: int, size: int) -> None:
    assert format_named(name).size(count) == size


def test_ids_and_names_are_unique() -> None:
    assert len({row.name for row in number_formats().values()}) == len(number_formats())
    with pytest.raises(KeyError):
        format_named("q4_2")


def test_places_and_caches_are_known_words() -> None:
    assert {row.place for row in tensor_places().values()} == {"input", "first", "each"}
    for row in architectures().values():
        assert row.cache in {"plain", "window"}
        assert (row.window_every > 0) == (row.cache == "window")
