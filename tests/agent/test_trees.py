"""Trees: what a record says, what differs from it, and tars in both directions."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hetctl.agent import trees
from hetctl.agent.failures import Failure

if TYPE_CHECKING:
    from tests.agent.conftest import Node


def tar_of(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def member(name: str, content: bytes = b"", **attributes: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, content


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=kind, linkname=target)


BUILD = [
    member("bin", type=tarfile.DIRTYPE, mode=0o755),
    member("bin/server", b"elf", mode=0o755),
    member("lib/libggml.so.0.1", b"code", mode=0o644),
    link("lib/libggml.so", "libggml.so.0.1"),
    link("bin/again", "bin/server", tarfile.LNKTYPE),
]


def observe(node: Node, path: str, files: list[dict[str, Any]]) -> dict[str, Any]:
    state: dict[str, Any] = node("observe", {"objects": [{"type": "tree", "path": path, "files": files}]})[
        "states"
    ][0]
    return state


SAME = {"exists": True, "missing": [], "different": [], "extra": []}


def test_a_tree_is_unpacked_recorded_and_found_again(node: Node) -> None:
    answer = node("put_tree", {"path": "/var/lib/b/key", "mode": "0755"}, tar_of(BUILD))
    files = {entry["path"]: entry for entry in answer["files"]}
    assert sorted(files) == ["bin", "bin/again", "bin/server", "lib", "lib/libggml.so", "lib/libggml.so.0.1"]
    assert (files["bin/server"]["mode"], files["bin/server"]["size"]) == (0o755, 3)
    assert files["lib/libggml.so"]["target"] == "libggml.so.0.1"
    assert files["bin/again"]["inode"] == files["bin/server"]["inode"]
    assert answer["created_directories"][-1] == "/var/lib/b"
    assert observe(node, "/var/lib/b/key", answer["files"]) == SAME
    assert node("hash_tree", {"path": "/var/lib/b/key"})["files"] == answer["files"]
    assert [path.name for path in node.path("/var/lib/b").iterdir()] == ["key"]


def test_a_tree_that_did_not_change_is_not_read(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    files = node("put_tree", {"path": "/b/key"}, tar_of(BUILD))["files"]

    def never(path: str) -> str:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(trees, "digest_of", never)
    assert observe(node, "/b/key", files) == SAME


def test_every_kind_of_difference_is_named(node: Node) -> None:
    files = node("put_tree", {"path": "/b/key"}, tar_of(BUILD))["files"]
    top = node.path("/b/key")
    (top / "bin/again").unlink()
    (top / "bin/server").write_bytes(b"ELF")
    (top / "lib/libggml.so").unlink()
    (top / "lib/libggml.so").symlink_to("elsewhere")
    (top / "lib").chmod(0o700)
    (top / "new").write_bytes(b"")
    assert observe(node, "/b/key", files) == {
        "exists": True,
        "missing": ["bin/again"],
        "different": ["bin/server", "lib", "lib/libggml.so"],
        "extra": ["new"],
    }


def test_a_copy_with_other_inodes_and_times_is_the_same_tree(node: Node) -> None:
    files = node("put_tree", {"path": "/b/key"}, tar_of(BUILD))["files"]
    shutil.copytree(node.path("/b/key"), node.path("/b/copy"), symlinks=True, copy_function=shutil.copy)
    assert observe(node, "/b/copy", files) == SAME


def test_no_tree_there(node: Node) -> None:
    node.write("/file", "x")
    for path in ("/none", "/file"):
        assert observe(node, path, [])["exists"] is False
    with pytest.raises(Failure, match="not a directory"):
        node("hash_tree", {"path": "/file"})


def test_a_former_tree_is_replaced_whole(node: Node) -> None:
    node.write("/b/key/old", "x")
    node("put_tree", {"path": "/b/key"}, tar_of(BUILD))
    assert not node.path("/b/key/old").exists()
    assert [path.name for path in node.path("/b").iterdir()] == ["key"]


def test_an_unpacking_that_fails_changes_and_leaves_nothing(node: Node) -> None:
    node.write("/b/key/old", "x")
    for content in (tar_of(BUILD)[:700], b"no tar at all" * 100, tar_of([member("../x")])):
        with pytest.raises(Failure):
            node("put_tree", {"path": "/b/key"}, content)
    assert node.names() == ["b", "b/key", "b/key/old"]


ESCAPES = [
    [member("../evil", b"x")],
    [member("/evil", b"x")],
    [member("a/../../evil", b"x")],
    [link("out", "/etc")],
    [link("out", "../..")],
    [link("a/out", "../../etc")],
    [link("dir", "."), member("dir/evil", b"x")],
    [link("dir", "sub"), member("sub/f", b"x"), member("dir/evil", b"x")],
    [link("hard", "../../etc/passwd", tarfile.LNKTYPE)],
    [link("sym", "target"), link("hard", "sym", tarfile.LNKTYPE)],
    [member("node", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    [member("pipe", type=tarfile.FIFOTYPE)],
    [member("f", b"1"), member("f", b"2")],
]


@pytest.mark.parametrize("members", ESCAPES, ids=lambda members: "+".join(info.name for info, _ in members))
def test_an_archive_that_reaches_out_is_refused(
    node: Node, members: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    node.write("/etc/passwd", "root")
    with pytest.raises((Failure, OSError)):
        node("put_tree", {"path": "/b/key"}, tar_of(members))
    assert node.names() == ["b", "etc", "etc/passwd"]
    assert node.path("/etc/passwd").read_text() == "root"


def test_set_user_bits_of_an_archive_are_dropped(node: Node) -> None:
    files = node("put_tree", {"path": "/b/key"}, tar_of([member("su", b"x", mode=0o4755)]))["files"]
    assert files[0]["mode"] == 0o755


def test_a_tree_comes_back_as_it_is_and_always_the_same(node: Node, tmp_path: Path) -> None:
    files = node("put_tree", {"path": "/b/key"}, tar_of(BUILD))["files"]
    node("get_tree", {"path": "/b/key"})
    first = bytes(node.body)
    node.body.clear()
    node("get_tree", {"path": "/b/key"})
    assert bytes(node.body) == first
    (tmp_path / "out").mkdir()
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert {entry.uid for entry in archive} == {0}
        archive.extractall(tmp_path / "out", filter="data")
    assert (tmp_path / "out/bin/server").read_bytes() == b"elf"
    assert os.readlink(tmp_path / "out/lib/libggml.so") == "libggml.so.0.1"  # noqa: PTH115 - the text of the link
    again = node("put_tree", {"path": "/b/again"}, first)["files"]
    dropped = ("inode", "mtime_ns")
    assert [{k: v for k, v in entry.items() if k not in dropped} for entry in again] == [
        {k: v for k, v in entry.items() if k not in dropped} for entry in files
    ]


names = st.text("abc.-_ é", min_size=1, max_size=4).filter(lambda name: name not in {".", ".."})
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.dictionaries(paths, st.binary(max_size=30), min_size=1, max_size=6))
def test_any_tree_survives_the_way_there_and_back(node: Node, contents: dict[str, bytes]) -> None:
    kept = {
        path: data for path, data in contents.items() if not any(o.startswith(path + "/") for o in contents)
    }
    node("put_tree", {"path": "/b/key"}, tar_of([member(path, data) for path, data in kept.items()]))
    node.body.clear()
    node("get_tree", {"path": "/b/key"})
    with tarfile.open(fileobj=io.BytesIO(bytes(node.body))) as archive:
        found = {entry.name: archive.extractfile(entry) for entry in archive if entry.isfile()}
        assert {name: source.read() for name, source in found.items() if source is not None} == kept
    shutil.rmtree(node.path("/b"))
