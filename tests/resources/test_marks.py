from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetctl.resources.base import Mark, digest
from hetctl.resources.marks import FORMAT_VERSION, mark_from_json, mark_to_json, newer_format

MARK = Mark(
    cluster="den",
    address="worker/chat@left",
    kind="worker",
    node="left",
    spec={"port": 20052, "devices": ["left/pool"]},
    spec_hash=digest({"port": 20052, "devices": ["left/pool"]}),
    generation=3,
    depends_on=("build/main@left",),
    gang="chat",
    objects=({"type": "file", "path": "/etc/systemd/system/x.service"},),
    facts={"state": "proved"},
)


def test_a_mark_survives_storage() -> None:
    assert mark_from_json(json.loads(json.dumps(mark_to_json(MARK)))) == MARK


def edited(**changes: Any) -> dict[str, Any]:
    return {**mark_to_json(MARK), **changes}


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (edited(spec={"port": 1}), "checksum"),
        (edited(objects=[]), "checksum"),
        (edited(generation=4), "checksum"),
        (edited(checksum=""), "checksum"),
        (edited(formatVersion=99), "format 99"),
        ({"damaged": "no JSON"}, "no JSON"),
        ({}, "format None"),
    ],
)
def test_a_mark_that_was_tampered_with_is_never_believed(stored: dict[str, Any], why: str) -> None:
    found = mark_from_json(stored)
    assert isinstance(found, str)
    assert why in found


@given(st.sampled_from(sorted(mark_to_json(MARK))))
def test_a_mark_with_a_missing_key_is_never_believed(key: str) -> None:
    stored = mark_to_json(MARK)
    del stored[key]
    assert isinstance(mark_from_json(stored), str)


@pytest.mark.parametrize("version", [FORMAT_VERSION, 0, None, "2", "x"])
def test_what_this_version_wrote_or_nobody_did_is_of_no_newer_format(version: Any) -> None:
    assert newer_format(edited(formatVersion=version)) == ""


def test_a_mark_of_a_newer_format_is_told_from_a_damaged_one() -> None:
    assert f"format {FORMAT_VERSION + 1}" in newer_format({"formatVersion": FORMAT_VERSION + 1})
