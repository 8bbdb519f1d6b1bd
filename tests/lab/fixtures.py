"""Pytest fixtures for tests that need real hosts and real parts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.lab import isolation
from tests.lab.cache import cache_directory
from tests.lab.hosts import Lab, bring_up
from tests.lab.parts import PARTS, Part

_LAB_FIXTURES = {"lab", "session_lab"}


class LabFactory(Protocol):
    """Boots hosts that live until the end of the fixture's scope."""

    def __call__(self, *names: str, count: int = 0, lower: str = "", disk: str = "2g") -> Lab:
        """Boot hosts of these names, or `count` hosts named h1, h2, ...; further arguments as `bring_up`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses real hosts, so that `-m "not lab"` leaves it out."""
    for item in items:
        if isinstance(item, pytest.Function) and _LAB_FIXTURES & set(item.fixturenames):
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="module")
def lab() -> Iterator[LabFactory]:
    """Boot hosts for the tests of one module."""
    yield from _factory()


@pytest.fixture(scope="session")
def session_lab() -> Iterator[LabFactory]:
    """Boot hosts for the whole session."""
    yield from _factory()


@pytest.fixture(scope="session")
def llama_source() -> Path:
    """Return llama.cpp's source as a tar archive."""
    return _prepared(PARTS["llama_source"])


@pytest.fixture(scope="session")
def small_model() -> Path:
    """Return a GGUF file of a real chat model: Gemma 3 270M, Q4_K_M, 241 MB."""
    return _prepared(PARTS["small_model"])


@pytest.fixture(scope="session")
def embedding_model() -> Path:
    """Return a GGUF file of a real embedding model: all-MiniLM-L6-v2, 384 values, 46 MB."""
    return _prepared(PARTS["embedding_model"])


@pytest.fixture(scope="session")
def ranking_model() -> Path:
    """Return a GGUF file that ranks documents: the same encoder with a head fitted for tests, 46 MB."""
    return _prepared(PARTS["ranking_model"])


@pytest.fixture(scope="session")
def operator_environment() -> dict[str, str]:
    """Return the environment for a hetctl process whose caches outlive the test session.

    What hetctl compiles and the compiler's cache stay there, so that one content is compiled once.
    """
    operator_cache = cache_directory() / "operator"
    operator_cache.mkdir(parents=True, exist_ok=True)
    return {**os.environ, "XDG_CACHE_HOME": str(operator_cache)}


def lab_required() -> bool:
    """Tell whether a missing lab is a failure and not a skip."""
    return os.environ.get("CI") == "true" or os.environ.get("HETCTL_REQUIRE_LAB") == "1"


def _factory() -> Iterator[LabFactory]:
    if not isolation.isolated():
        _miss("no lab here: as root, `make test` or `make lab` runs it")
    with ExitStack() as labs:

        def boot(*names: str, count: int = 0, lower: str = "", disk: str = "2g") -> Lab:
            lab = bring_up(names or [f"h{index + 1}" for index in range(count)], lower=lower, disk=disk)
            labs.callback(lab.down)
            return lab

        yield boot


def _prepared(part: Part) -> Path:
    path = part.path()
    if not path.exists():
        _miss(f"{path.name} was not fetched: `make prepare` does it")
    return path


def _miss(reason: str) -> None:
    if lab_required():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
