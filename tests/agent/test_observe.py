"""One batch, one state for each object, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hetctl.agent import files
from hetctl.agent.failures import Failure

if TYPE_CHECKING:
    from tests.agent.conftest import Node


def test_states_come_in_the_order_asked(node: Node) -> None:
    for name in ("a", "b", "c"):
        node.write(f"/{name}", name * (1 + ord(name) - ord("a")))
    objects = [{"type": "file", "path": f"/{name}"} for name in ("c", "none", "a", "b", "a")]
    states = node("observe", {"objects": objects})["states"]
    assert [state.get("size") for state in states] == [3, None, 1, 2, 1]
    assert node("observe", {"objects": []}) == {"states": []}


def test_what_cannot_be_read_is_unknown_and_the_rest_is_read(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.write("/a", "x")

    def broken(path: str) -> str:
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(files, "digest_of", broken)
    objects = [{"type": "file", "path": "/a", "hash": True}, {"type": "file", "path": "/a"}]
    first, second = node("observe", {"objects": objects})["states"]
    assert set(first) == {"unknown"}
    assert "Input/output error" in first["unknown"]
    assert second["exists"] is True


@pytest.mark.parametrize(
    "item", [{}, {"type": "planet"}, {"type": "file"}, {"type": "file", "path": "x"}, {"type": "listener"}]
)
def test_senseless_objects_are_refused(node: Node, item: dict[str, object]) -> None:
    with pytest.raises(Failure) as caught:
        node("observe", {"objects": [item]})
    assert caught.value.kind == "bad-request"
