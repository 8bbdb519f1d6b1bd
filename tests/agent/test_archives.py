"""Archives that lie on the node."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from hetctl.agent.failures import Failure

if TYPE_CHECKING:
    from tests.agent.conftest import Node

CONTENT = {
    "pkg-1.0/README": b"read me",
    "pkg-1.0/llama.cpp/CMakeLists.txt": b"project()",
    "pkg-1.0/llama.cpp/src/a.cpp": b"int a;" * 1000,
    "pkg-1.0/llama.cpp2/other": b"",
}


def tar(mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]  # the mode is data here
        for name, content in CONTENT.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in CONTENT.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, content)
        entry = zipfile.ZipInfo("pkg-1.0/llama.cpp/link")
        entry.external_attr = 0o120777 << 16
        archive.writestr(entry, "src/a.cpp")
    return out.getvalue()


def zstd() -> bytes:
    return subprocess.run(["zstd", "-qc"], input=tar("w"), capture_output=True, check=True).stdout


FORMATS: dict[str, Callable[[], bytes]] = {
    "tar": lambda: tar("w"),
    "tar.gz": lambda: tar("w:gz"),
    "tar.bz2": lambda: tar("w:bz2"),
    "tar.xz": lambda: tar("w:xz"),
    "zip": zipped,
    **({"tar.zst": zstd} if shutil.which("zstd") else {}),
}


@pytest.fixture
def zstd_node(node: Node) -> Node:
    """A node that has the program zstd where programs lie."""
    if program := shutil.which("zstd"):
        node.path("/usr/bin").mkdir(parents=True)
        node.path("/usr/bin/zstd").symlink_to(program)
    return node


def unpack(node: Node, name: str, **more: Any) -> dict[str, Any]:
    node.write(f"/src/archive.{name}", FORMATS[name]())
    return node("unpack", {"archive": f"/src/archive.{name}", "path": "/b/tree", **more})


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_unpacked(zstd_node: Node, name: str) -> None:
    answer = unpack(zstd_node, name)
    assert answer["files"] >= len(CONTENT)
    assert answer["created_directories"] == ["/b"]
    for path, content in CONTENT.items():
        assert zstd_node.path(f"/b/tree/{path}").read_bytes() == content
    assert zstd_node.path("/b/tree/pkg-1.0/README").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", FORMATS)
def test_leading_parts_are_stripped_and_one_subdirectory_kept(zstd_node: Node, name: str) -> None:
    unpack(zstd_node, name, strip=1, subdirectory="llama.cpp")
    found = [path for path in zstd_node.names() if path.startswith("b/tree/") and not path.endswith("link")]
    assert found == ["b/tree/CMakeLists.txt", "b/tree/src", "b/tree/src/a.cpp"]


def test_links_in_a_zip_are_links(zstd_node: Node) -> None:
    unpack(zstd_node, "zip", strip=1)
    assert str(zstd_node.path("/b/tree/llama.cpp/link").readlink()) == "src/a.cpp"


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_archive_leaves_nothing(zstd_node: Node, name: str) -> None:
    whole = FORMATS[name]()
    for content in (
        whole[: len(whole) // 2],
        whole[: len(whole) // 2] + bytes(200) + whole[len(whole) // 2 + 200 :],
    ):
        zstd_node.write(f"/src/archive.{name}", content)
        try:
            zstd_node("unpack", {"archive": f"/src/archive.{name}", "path": "/b/tree"})
        except (Failure, OSError):
            assert not zstd_node.path("/b/tree").exists()
            assert list(zstd_node.path("/b").iterdir()) == []
        else:
            assert name == "tar", "only a plain tar has no checksum over its content"
            shutil.rmtree(zstd_node.path("/b"))


def test_an_archive_without_what_was_asked_for_is_an_error(node: Node) -> None:
    with pytest.raises(Failure, match="nothing that was asked for"):
        unpack(node, "tar", strip=1, subdirectory="whisper.cpp")
    with pytest.raises(Failure, match="negative"):
        unpack(node, "tar", strip=-1)


def test_zstd_without_its_program_says_what_to_install(node: Node) -> None:
    node.write("/src/a", b"\x28\xb5\x2f\xfd")
    with pytest.raises(Failure, match="zstd") as caught:
        node("unpack", {"archive": "/src/a", "path": "/b/tree"})
    assert "install zstd" in caught.value.fix
