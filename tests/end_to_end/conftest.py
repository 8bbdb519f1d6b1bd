"""What the end-to-end tests share: a workplace beside a lab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.workplace import Workplace
from tests.lab.hosts import Lab

KEY = "sk-lab-5f2c"

WorkplaceFactory = Callable[[Lab], Workplace]


@pytest.fixture(scope="module")
def workplace_beside(
    tmp_path_factory: pytest.TempPathFactory, operator_environment: dict[str, str]
) -> WorkplaceFactory:
    """Make a workplace that may log in to a lab's hosts, with the API key in its environment."""

    def make(lab: Lab) -> Workplace:
        directory: Path = tmp_path_factory.mktemp("operator")
        return Workplace.beside(lab, directory, {**operator_environment, "CHAT_KEY": KEY})

    return make
