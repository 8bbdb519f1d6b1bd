"""What nft is told and what it says; `test_on_hosts.py` has the real one."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from hetctl.agent.failures import Failure

if TYPE_CHECKING:
    from tests.agent.conftest import Node


def look(node: Node) -> dict[str, object]:
    state: dict[str, object] = node(
        "observe", {"objects": [{"type": "nft_table", "family": "inet", "name": "hetctl_den"}]}
    )["states"][0]
    return state


def stand_in(node: Node, text: str) -> None:
    node.write("/usr/sbin/nft", f"#!/bin/sh\n{text}\n", 0o755)


def test_a_table_is_told_apart_from_none_and_from_unknown(node: Node) -> None:
    assert look(node) == {"exists": False, "unavailable": "the program nft is not on this node"}
    stand_in(node, 'echo "Error: No such file or directory" >&2; exit 1')
    assert look(node) == {"exists": False}
    stand_in(node, 'echo "Operation not permitted" >&2; exit 1')
    assert set(look(node)) == {"unknown"}
    stand_in(node, 'echo "table inet hetctl_den {"; echo "}"')
    text = "table inet hetctl_den {\n}\n"
    assert look(node) == {"exists": True, "text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def test_a_script_goes_in_by_standard_input(node: Node) -> None:
    stand_in(node, f'echo "$@" > {node.root}/argv; cat > {node.root}/script; echo bad >&2; exit 1')
    assert node("nft", {"script": "flush ruleset\n"}) == {"exit": 1, "stderr": "bad\n"}
    assert node.path("/argv").read_text() == "-f -\n"
    assert node.path("/script").read_text() == "flush ruleset\n"


def test_a_node_without_nft_says_what_to_install(node: Node) -> None:
    with pytest.raises(Failure) as caught:
        node("nft", {"script": ""})
    assert "nftables" in caught.value.fix


@pytest.mark.parametrize(
    "item", [{"family": "inet", "name": "a b"}, {"family": "x", "name": "a"}, {"family": "ip", "name": ""}]
)
def test_names_that_are_none_are_refused(node: Node, item: dict[str, str]) -> None:
    with pytest.raises(Failure):
        node("observe", {"objects": [{"type": "nft_table", **item}]})
