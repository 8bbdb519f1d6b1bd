from __future__ import annotations

import pytest

from tests.agent.conftest import Node


def put(node: Node, path: str) -> None:
    node("put_file", {"path": path, "mode": 0o644}, b"x")


def test_directories_made_elsewhere_go_with_the_last_cluster(node: Node) -> None:
    node.path("/data").mkdir(parents=True)
    put(node, "/data/models/den/gemma/x.gguf")
    node("write_members", {"cluster": "den", "members": {}})
    node("remove", {"paths": ["/data/models/den/gemma/x.gguf"], "empty_directories": []})
    node("remove_cluster", {"cluster": "den"})
    assert node.path("/data").is_dir()
    assert not node.path("/data/models").exists()
    assert not node.path("/var/lib/hetctl").exists()


def test_a_directory_somebody_else_uses_stays(node: Node) -> None:
    put(node, "/data/models/den/x.gguf")
    node.write("/data/models/mine", "kept")
    node("remove", {"paths": ["/data/models/den/x.gguf"], "empty_directories": []})
    node("remove_cluster", {"cluster": "den"})
    assert node.path("/data/models/mine").read_text() == "kept"
    assert not node.path("/data/models/den").exists()


def test_directories_stay_remembered_while_another_cluster_is_there(node: Node) -> None:
    node("write_members", {"cluster": "lair", "members": {}})
    put(node, "/data/x")
    node("remove", {"paths": ["/data/x"], "empty_directories": []})
    node("remove_cluster", {"cluster": "den"})
    assert node.path("/data").is_dir()
    node("remove_cluster", {"cluster": "lair"})
    assert not node.path("/data").exists()


def test_what_a_cut_off_run_left_goes_with_the_last_cluster(node: Node) -> None:
    node("write_members", {"cluster": "den", "members": {}})
    node.write("/etc/systemd/system/.hetctl-4711-aa", "half a unit")
    node.write("/etc/systemd/system/mine.service", "[Service]")
    node.write("/var/lib/hetctl/builds/.hetctl-4711-bb/llama-server", "half a build")
    node("remove_cluster", {"cluster": "den"})
    assert not node.path("/etc/systemd/system/.hetctl-4711-aa").exists()
    assert node.path("/etc/systemd/system/mine.service").exists()
    assert not node.path("/var/lib/hetctl").exists()


@pytest.mark.parametrize("place", ["/data", "/var/tmp", "/tmp"])
def test_a_directory_for_unfinished_work_goes_with_what_is_in_it(node: Node, place: str) -> None:
    node.path(place).mkdir(parents=True)
    node("write_members", {"cluster": "den", "members": {}})
    node("make_directories", {"paths": [{"path": f"{place}/.hetctl-compile-k1", "mode": 0o755}]})
    node.write(f"{place}/.hetctl-compile-k1/build/half.o", "half an object")
    node.write(f"{place}/.hetctl-of-somebody-else", "kept")
    node("remove_cluster", {"cluster": "den"})
    assert [path.name for path in node.path(place).iterdir()] == [".hetctl-of-somebody-else"]
