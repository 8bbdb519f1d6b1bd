"""Files: state, writing, resuming, reading."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hetctl.agent import atomic, files
from hetctl.agent.failures import Failure, Interruption

if TYPE_CHECKING:
    from tests.agent.conftest import Node


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def look(node: Node, path: str, **more: Any) -> dict[str, Any]:
    state: dict[str, Any] = node("observe", {"objects": [{"type": "file", "path": path, **more}]})["states"][
        0
    ]
    return state


def test_state_tells_kind_mode_and_size(node: Node) -> None:
    node.write("/etc/a", "hello", 0o640)
    node.path("/etc/link").symlink_to("a")
    os.mkfifo(node.path("/etc/pipe"))
    assert look(node, "/none") == {"exists": False}
    assert look(node, "/etc/a/below") == {"exists": False}
    state = look(node, "/etc/a")
    assert (state["kind"], state["mode"], state["size"]) == ("file", 0o640, 5)
    assert "sha256" not in state
    assert (look(node, "/etc")["kind"], look(node, "/etc/pipe")["kind"]) == ("directory", "other")
    assert (look(node, "/etc/link")["kind"], look(node, "/etc/link")["target"]) == ("symlink", "a")


def test_a_hash_is_taken_from_a_former_look_while_nothing_changed(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.write("/f", "hello")
    first = look(node, "/f", hash=True)
    assert first["sha256"] == sha(b"hello")
    monkeypatch.setattr(files, "digest_of", lambda _: "computed")
    assert look(node, "/f", expect=first)["sha256"] == sha(b"hello")
    for key, value in (("size", 6), ("mtime_ns", 1), ("inode", 1), ("sha256", None)):
        assert look(node, "/f", expect={**first, key: value})["sha256"] == "computed"


def test_put_file_writes_content_mode_and_parents(node: Node) -> None:
    answer = node(
        "put_file", {"path": "/a/b/c", "mode": "0750", "sha256": sha(b"xy"), "size": 2}, b"x", b"", b"y"
    )
    assert node.path("/a/b/c").read_bytes() == b"xy"
    assert answer["created_directories"] == ["/a", "/a/b"]
    assert answer["state"] == look(node, "/a/b/c", hash=True)
    assert (answer["state"]["mode"], node.path("/a/b").stat().st_mode & 0o777) == (0o750, 0o755)
    assert node.names() == ["a", "a/b", "a/b/c"]


def test_put_file_replaces_in_one_step(node: Node) -> None:
    before = node.write("/f", "old").stat().st_ino
    answer = node("put_file", {"path": "/f", "mode": 0o644}, b"new")
    assert node.path("/f").read_bytes() == b"new"
    assert answer["state"]["inode"] != before
    assert answer["created_directories"] == []


def test_put_file_replaces_a_link_and_not_what_it_points_to(node: Node) -> None:
    node.write("/target", "keep")
    node.path("/link").symlink_to("target")
    node("put_file", {"path": "/link", "mode": 0o644}, b"new")
    assert node.path("/target").read_bytes() == b"keep"
    assert not node.path("/link").is_symlink()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"sha256": sha(b"other")}, "not the one announced"),
        ({"size": 3}, "bytes arrived"),
        ({"size": 1}, "bytes arrived"),
    ],
)
@pytest.mark.parametrize("resume", [False, True])
def test_wrong_content_changes_nothing_and_leaves_nothing(
    node: Node, more: dict[str, Any], words: str, resume: bool
) -> None:
    node.write("/f", "old")
    arguments = {"path": "/f", "mode": 0o644, "resume": resume, "sha256": sha(b"xy"), **more}
    with pytest.raises(Failure, match=words):
        node("put_file", arguments, b"xy")
    assert node.path("/f").read_bytes() == b"old"
    assert node.names() == ["f"]


@pytest.mark.parametrize(
    "error", [Interruption("deadline", "late"), Failure("the upload ended early"), OSError(28, "full")]
)
@pytest.mark.parametrize("resume", [False, True])
def test_an_upload_cut_short_keeps_its_part_only_to_resume(
    node: Node, error: BaseException, resume: bool
) -> None:
    def blocks() -> Iterator[bytes]:
        yield b"part"
        raise error

    node.context._blocks = blocks
    arguments = {"path": "/f", "mode": 0o644, "sha256": sha(b"partrest"), "resume": resume}
    with pytest.raises(type(error)):
        files.put_file(node.context, arguments)
    kept = resume and not isinstance(error, OSError)
    assert node("partial", {"path": "/f", "sha256": sha(b"partrest")}) == {"size": 4 if kept else 0}
    assert node.names() == ([f".hetctl-partial-{sha(b'partrest')}"] if kept else [])
    if kept:
        node("put_file", {**arguments, "offset": 4}, b"rest")
        assert node.path("/f").read_bytes() == b"partrest"
        assert node.names() == ["f"]


def test_resuming_beyond_what_is_there_fails(node: Node) -> None:
    arguments = {"path": "/f", "mode": 0o644, "sha256": sha(b"x"), "resume": True, "offset": 9}
    with pytest.raises(Failure, match="shorter"):
        node("put_file", arguments, b"x")


def test_a_secret_is_private_and_known_by_its_fingerprint_alone(node: Node) -> None:
    answer = node("put_file", {"path": "/etc/key", "secret": True}, b"sesame")
    salt = node("salt")["salt"]
    assert answer["hmac"] == hmac.new(bytes.fromhex(salt), b"sesame", "sha256").hexdigest()
    assert "sha256" not in answer["state"]
    assert node.path("/etc/key").stat().st_mode & 0o777 == 0o600
    assert node("put_file", {"path": "/etc/key", "secret": True}, b"sesame")["hmac"] == answer["hmac"]
    assert node("put_file", {"path": "/etc/key", "secret": True}, b"other")["hmac"] != answer["hmac"]


def test_a_secret_is_private_before_it_has_its_name(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    write = atomic.write_all

    def spy(descriptor: int, data: bytes) -> None:
        seen.append(os.fstat(descriptor).st_mode & 0o777)
        write(descriptor, data)

    monkeypatch.setattr(atomic, "write_all", spy)
    os.umask(os.umask(0o077))
    node("put_file", {"path": "/key", "secret": True, "mode": "0640"}, b"sesame")
    assert seen[-1] == 0o600


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "f"},
        {"path": "/a/../f"},
        {"path": "/f\0"},
        {"path": 7},
        {},
        {"path": "/f", "mode": "rw-"},
        {"path": "/f", "mode": 0o10000},
        {"path": "/f", "resume": True},
        {"path": "/f", "resume": True, "sha256": "../../x"},
        {"path": "/f", "secret": "yes"},
    ],
)
def test_senseless_requests_are_refused(node: Node, arguments: dict[str, Any]) -> None:
    with pytest.raises(Failure) as caught:
        node("put_file", arguments, b"x")
    assert caught.value.kind == "bad-request"
    assert node.names() == []


def test_a_directory_in_the_way_is_said(node: Node) -> None:
    node.path("/d").mkdir()
    with pytest.raises(Failure, match="is a directory"):
        node("put_file", {"path": "/d"}, b"x")


def test_reading_is_bounded(node: Node) -> None:
    node.write("/f", "hello")
    assert node("read_file", {"path": "/f"}) == {"content": base64.b64encode(b"hello").decode(), "size": 5}
    assert base64.b64decode(node("read_file", {"path": "/f", "limit": 2})["content"]) == b"he"
    with pytest.raises(Failure, match="cannot be read"):
        node("read_file", {"path": "/none"})
    with pytest.raises(Failure) as caught:
        node("read_file", {"path": "/f", "limit": 1 << 40})
    assert caught.value.kind == "bad-request"


def test_directories_are_made_once_with_their_mode(node: Node) -> None:
    wanted = {"paths": [{"path": "/a/b", "mode": "0700"}, {"path": "/a/c", "mode": "0755"}]}
    assert node("make_directories", wanted) == {"created": ["/a", "/a/b", "/a/c"]}
    assert node("make_directories", wanted) == {"created": []}
    assert node.path("/a/b").stat().st_mode & 0o777 == 0o700
    assert node.path("/a").stat().st_mode & 0o777 == 0o755
    node.path("/a/c").chmod(0o777)
    node("make_directories", wanted)
    assert node.path("/a/c").stat().st_mode & 0o777 == 0o755, "an existing directory gets the mode asked for"


def test_a_file_where_a_directory_should_be_is_an_error(node: Node) -> None:
    node.write("/a", "file")
    with pytest.raises(FileExistsError):
        node("make_directories", {"paths": [{"path": "/a/b"}]})


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(blocks=st.lists(st.binary(max_size=50), max_size=8), mode=st.integers(0o400, 0o777))
def test_whatever_is_written_is_read_back(node: Node, blocks: list[bytes], mode: int) -> None:
    content = b"".join(blocks)
    answer = node("put_file", {"path": "/f", "mode": mode, "sha256": sha(content)}, *blocks)
    assert base64.b64decode(node("read_file", {"path": "/f"})["content"]) == content
    assert (answer["state"]["mode"], answer["state"]["sha256"]) == (mode, sha(content))
    again = node("put_file", {"path": "/f", "mode": mode, "sha256": sha(content)}, *blocks)
    assert {**again["state"], "inode": 0, "mtime_ns": 0} == {**answer["state"], "inode": 0, "mtime_ns": 0}
