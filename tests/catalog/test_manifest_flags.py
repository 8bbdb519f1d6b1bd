"""The manifest refuses what the catalogue renders: the two lists agree."""

from __future__ import annotations

import pytest

from hetctl.catalog.flags import Program, flags_for
from hetctl.catalog.llama import newest_build, oldest_build
from hetctl.manifest.flags import FLAG_KEYS, REFUSED_FLAGS


@pytest.mark.parametrize("build", [oldest_build(), 10121, newest_build()])
def test_every_flag_that_a_key_stands_for_is_refused_in_args(build: int) -> None:
    spellings = flags_for(build, Program.SERVER).spellings()
    free = {flag for flag, key in spellings.items() if key == "args"}
    assert set(spellings) - free <= set(FLAG_KEYS) | set(REFUSED_FLAGS)


def test_what_the_catalogue_leaves_to_the_user_is_not_refused() -> None:
    spellings = flags_for(newest_build(), Program.SERVER).spellings()
    free = {flag for flag, key in spellings.items() if key == "args"}
    assert not free & (set(FLAG_KEYS) | set(REFUSED_FLAGS))
