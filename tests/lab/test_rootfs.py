from __future__ import annotations

import pytest

from tests.lab.process import LabError
from tests.lab.rootfs import Package, closure


def package(name: str, *depends: tuple[str, ...], provides: tuple[str, ...] = ()) -> Package:
    return Package(name=name, base=False, provides=provides, depends=depends, stanza="")


INSTALLED = {
    found.name: found
    for found in (
        package("server", ("library",), ("mailer", "exim")),
        package("library", ("runtime",)),
        package("runtime", ("library",)),
        package("exim"),
        package("desktop", ("server",)),
        package("web", ("awk",)),
        package("mawk", provides=("awk",)),
        package("old-system", ("transition", "never-installed")),
    )
}


def test_dependencies_of_dependencies_are_taken_and_circles_end() -> None:
    assert closure(("server",), INSTALLED) == ["exim", "library", "runtime", "server"]


def test_a_virtual_package_is_provided_by_another() -> None:
    assert closure(("web",), INSTALLED) == ["mawk", "web"]


def test_what_is_not_installed_is_left_out_of_dependencies() -> None:
    assert closure(("old-system",), INSTALLED) == ["old-system"]


def test_a_wanted_package_must_be_installed() -> None:
    with pytest.raises(LabError, match=r"not installed on this machine: gcc, vim; run tests/lab/setup\.sh"):
        closure(("vim", "gcc", "web"), INSTALLED)
