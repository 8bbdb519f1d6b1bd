"""Marks, member records, salt, and what is left when the last cluster goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetctl.agent.failures import Failure
from hetctl.agent.marks import quote, unquote

if TYPE_CHECKING:
    from tests.agent.conftest import Node


@given(address=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_every_address_has_a_file_name_of_its_own(address: str) -> None:
    name = quote(address)
    assert unquote(name) == address
    assert "/" not in name
    assert not name.startswith(".")


def test_marks_are_kept_by_cluster_and_address(node: Node) -> None:
    for cluster, address in (
        ("den", "server/chat"),
        ("den", "worker/chat@atlas.left"),
        ("lab", "server/chat"),
    ):
        node("write_mark", {"cluster": cluster, "address": address, "mark": {"of": cluster}})
    node("write_mark", {"cluster": "den", "address": "server/chat", "mark": {"generation": 2}})
    node("write_members", {"cluster": "den", "members": {"atlas": {"ssh": "root@atlas"}}})
    found = node("marks")
    assert found["root"] == "/var/lib/hetctl"
    assert found["lock"] is None
    assert found["clusters"] == {
        "den": {
            "members": {"atlas": {"ssh": "root@atlas"}},
            "marks": {"server/chat": {"generation": 2}, "worker/chat@atlas.left": {"of": "den"}},
        },
        "lab": {"members": None, "marks": {"server/chat": {"of": "lab"}}},
    }
    assert node.path("/var/lib/hetctl/clusters/den/marks/server%2Fchat.json").stat().st_mode & 0o777 == 0o644


def test_a_damaged_mark_is_said_and_does_not_hide_the_others(node: Node) -> None:
    node("write_mark", {"cluster": "den", "address": "model/a", "mark": {"a": 1}})
    node.write("/var/lib/hetctl/clusters/den/marks/model%2Fb.json", '{"cut')
    node.write("/var/lib/hetctl/clusters/den/marks/model%2Fc.json", "[]")
    node.write("/var/lib/hetctl/clusters/den/marks/.hetctl-1-unfinished", "")
    node.write("/var/lib/hetctl/clusters/den/members.json", "")
    found = node("marks")["clusters"]["den"]
    assert found["marks"]["model/a"] == {"a": 1}
    assert (
        set(found["marks"]["model/b"])
        == set(found["marks"]["model/c"])
        == set(found["members"])
        == {"damaged"}
    )
    assert len(found["marks"]) == 3


@pytest.mark.parametrize("cluster", ["", "..", "a/b", "../x", ".hidden", "a\0", "-x" * 60])
def test_a_cluster_name_cannot_lead_elsewhere(node: Node, cluster: str) -> None:
    with pytest.raises(Failure) as caught:
        node("write_mark", {"cluster": cluster, "address": "x", "mark": {}})
    assert caught.value.kind == "bad-request"
    assert node.names() == []


def test_the_last_cluster_takes_everything_with_it(node: Node) -> None:
    node("salt")
    node.write("/var/lib/hetctl/agent/abc/x.py", "")
    node.path("/var/lib/hetctl/builds").mkdir()
    for cluster in ("den", "lab"):
        node("write_mark", {"cluster": cluster, "address": "server/chat", "mark": {}})
        node("write_members", {"cluster": cluster, "members": {}})
    with pytest.raises(Failure, match="server/chat"):
        node("remove_cluster", {"cluster": "den"})
    node("remove_mark", {"cluster": "den", "address": "server/chat"})
    assert node("remove_cluster", {"cluster": "den"}) == {"left": []}
    assert node("marks")["clusters"].keys() == {"lab"}
    assert node("salt")["salt"]
    node("remove_mark", {"cluster": "lab", "address": "server/chat"})
    assert node("remove_cluster", {"cluster": "lab"}) == {"left": []}
    assert node.names() == ["var", "var/lib"]
    assert node("remove_cluster", {"cluster": "lab"}) == {"left": []}


def test_what_is_not_ours_to_remove_is_named(node: Node) -> None:
    node.write("/var/lib/hetctl/models/somebody.gguf", "x")
    node("write_members", {"cluster": "den", "members": {}})
    assert node("remove_cluster", {"cluster": "den"}) == {"left": ["/var/lib/hetctl/models"]}
    assert node.path("/var/lib/hetctl/models/somebody.gguf").exists()


def test_the_salt_is_made_once_and_private(node: Node) -> None:
    first = node("salt")["salt"]
    assert len(bytes.fromhex(first)) == 32
    assert node("salt")["salt"] == first
    assert node.path("/var/lib/hetctl/salt").stat().st_mode & 0o777 == 0o600
