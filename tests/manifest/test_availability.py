from pathlib import Path

import pytest

from hetctl.errors import ManifestInvalid
from hetctl.manifest import load
from hetctl.manifest.availability import ANY, AUTO_DEVICES, RESERVED, Reserved
from hetctl.manifest.source import KeyPath
from tests.manifest.corpus import BAD


def _found(path: Path) -> list[tuple[str, KeyPath, str]]:
    with pytest.raises(ManifestInvalid) as caught:
        load([path])
    return [(p.code, p.path, p.message) for p in caught.value.problems if p.code.startswith("E9")]


@pytest.fixture(scope="module")
def seen() -> list[tuple[str, KeyPath, str]]:
    return [found for path in BAD for found in _found(path)]


def _fits(pattern: tuple[str, ...], path: KeyPath) -> bool:
    return len(pattern) == len(path) and all(
        step in (ANY, at) for step, at in zip(pattern, path, strict=True)
    )


@pytest.mark.parametrize("row", RESERVED, ids=lambda row: f"{row.code}-{'.'.join(row.pattern)}")
def test_every_row_answers_at_its_key(row: Reserved, seen: list[tuple[str, KeyPath, str]]) -> None:
    hits = [found for found in seen if found[0] == row.code and _fits(row.pattern, found[1])]
    assert any(message == f"{row.what} not available yet" for _, _, message in hits)


def test_devices_auto_answers_too(seen: list[tuple[str, KeyPath, str]]) -> None:
    assert AUTO_DEVICES in {code for code, _, _ in seen}


def test_codes_are_of_the_right_kind() -> None:
    codes = [row.code for row in RESERVED]
    assert all(code.startswith("E9") and len(code) == 4 for code in codes)
    assert AUTO_DEVICES not in codes
