"""Removing takes what was named and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hetctl.agent.failures import Failure

if TYPE_CHECKING:
    from tests.agent.conftest import Node


def test_files_links_and_trees_go_and_targets_of_links_stay(node: Node) -> None:
    node.write("/keep/f", "x")
    node.write("/var/tree/deep/f", "x")
    node.path("/var/tree/link").symlink_to("../../keep")
    node.path("/var/link").symlink_to("../keep")
    node.write("/var/file", "x")
    paths = ["/var/tree", "/var/link", "/var/file", "/var/none", "/var/file/below"]
    assert node("remove", {"paths": paths})["removed"] == ["/var/tree", "/var/link", "/var/file"]
    assert node.names() == ["keep", "keep/f", "var"]
    assert node("remove", {"paths": paths})["removed"] == []


def test_directories_go_only_when_empty_and_in_order(node: Node) -> None:
    node.path("/a/b/c").mkdir(parents=True)
    node.write("/a/full/f", "x")
    node.path("/a/link").symlink_to("b")
    asked = ["/a/b/c", "/a/b", "/a/full", "/a/link", "/a/none"]
    assert node("remove", {"empty_directories": asked})["removed"] == ["/a/b/c", "/a/b"]


@pytest.mark.parametrize("path", ["/", "", "//", "/etc", "/etc/", "/./etc", "etc/x", "/etc/../x", "/a\0/b"])
def test_nothing_near_the_root_is_removed(node: Node, path: str) -> None:
    node.write("/etc/x", "x")
    for arguments in ({"paths": ["/etc/x", path]}, {"empty_directories": [path]}):
        with pytest.raises(Failure):
            node("remove", arguments)
    assert node.names() == ["etc", "etc/x"], "a request with one bad path removes nothing at all"
