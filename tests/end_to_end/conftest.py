"""What the end-to-end tests share: a workplace beside a lab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.workplace import Workplace
from tests.lab.hosts import Lab

KEY = "sk-lab-5f2c"

LONGEST_SECONDS = 3600
"""The first test that applies compiles llama.cpp when no cache has it."""

WorkplaceFactory = Callable[[Lab], Workplace]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this directory the time that compiling takes."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(LONGEST_SECONDS))


@pytest.fixture(scope="module")
def workplace_beside(
    tmp_path_factory: pytest.TempPathFactory, operator_environment: dict[str, str]
) -> WorkplaceFactory:
    """Make a workplace that may log in to a lab's hosts, with the API key in its environment."""

    def make(lab: Lab) -> Workplace:
        directory: Path = tmp_path_factory.mktemp("operator")
        return Workplace.beside(lab, directory, {**operator_environment, "CHAT_KEY": KEY})

    return make
