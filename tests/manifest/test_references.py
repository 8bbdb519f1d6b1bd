from pathlib import Path

import pytest

from hetctl.errors import ManifestInvalid
from hetctl.manifest import Cluster, load, load_text
from hetctl.manifest.codes import EXAMPLE_BASE
from hetctl.manifest.references import DeviceKind, DeviceRef, Resolved, ResolvedPlacement, is_ip, resolve

HEAD = "apiVersion: hetctl/v1\nkind: Cluster\nname: den\n"
PARTS = "builds: {main: {version: b1, source: {archive: a.tar.gz}}}\nmodels: {gemma: {source: gemma.gguf}}\n"


def _resolve(text: str) -> Resolved:
    return resolve(load_text(text))


def _chat(nodes: str, placement: str) -> ResolvedPlacement:
    text = HEAD + f"nodes: {nodes}\n{PARTS}placements: {{chat: {{model: gemma, {placement}}}}}\n"
    return _resolve(text).placements["chat"]


def test_names_are_looked_up_in_order() -> None:
    resolved = _resolve(EXAMPLE_BASE)
    chat = resolved.placements["chat"]
    assert chat.devices == (
        DeviceRef("atlas/fast", "atlas", DeviceKind.GPU, "fast"),
        DeviceRef("bench/left", "bench", DeviceKind.CPU_WORKER, "left"),
    )
    assert (chat.head, chat.build, chat.model, chat.port, chat.alias) == (
        "atlas",
        "main",
        "gemma",
        8080,
        "chat",
    )
    assert chat.listen == ("192.168.10.5",)
    assert chat.nodes == ("atlas", "bench")
    assert resolved.gpu(chat.devices[0]).match.model == "RTX 5060 Ti"
    assert resolved.cpu_worker(chat.devices[1]).threads == 4


def test_the_head_may_be_elsewhere() -> None:
    chat = _chat(
        "{a: {address: 10.0.0.1, cpuWorkers: {w: {}}}, b: {address: 10.0.0.2}}",
        "devices: [a/w], server: {node: b}",
    )
    assert (chat.head, chat.nodes, chat.listen) == ("b", ("b", "a"), ("10.0.0.2",))


def test_workers_are_one_a_node_for_cards_and_one_for_each_cpu_worker() -> None:
    chat = _chat(
        "{a: {address: 10.0.0.1, gpus: {g: {match: A}}, cpuWorkers: {c: {}}},"
        " b: {address: 10.0.0.2, gpus: {g: {match: A}, h: {match: B}}, cpuWorkers: {c: {}, d: {}}}}",
        "devices: [a/g, b/h, b/c, a/c, b/g, b/d]",
    )
    shown = {key: [device.text for device in devices] for key, devices in chat.workers.items()}
    assert list(shown.items()) == [
        (("b", ""), ["b/h", "b/g"]), (("b", "c"), ["b/c"]), (("a", "c"), ["a/c"]), (("b", "d"), ["b/d"]),
    ]  # fmt: skip


def test_the_heads_own_cpu_is_no_worker() -> None:
    chat = _chat("{a: {address: 10.0.0.1}}", "devices: [a/cpu]")
    assert chat.devices == (DeviceRef("a/cpu", "a", DeviceKind.HEAD_CPU, "cpu"),)
    assert not chat.workers


@pytest.mark.parametrize(
    ("node", "devices"),
    [
        ("{address: 10.0.0.1}", ["a/cpu"]),
        ("{address: 10.0.0.1, gpus: {x: {match: X}, w: {match: W}}}", ["a/x", "a/w"]),
        ("{address: 10.0.0.1, cpuWorkers: {c: {}}, gpus: {x: {match: X}}}", ["a/x", "a/c"]),
    ],
)
def test_auto_means_everything_there_is_on_a_single_node(node: str, devices: list[str]) -> None:
    chat = _chat(f"{{a: {node}}}", "devices: auto")
    assert [device.text for device in chat.devices] == devices


@pytest.mark.parametrize(
    ("node", "listen", "rpc"),
    [
        ("{address: 10.0.0.1}", ("10.0.0.1",), "10.0.0.1"),
        ("{address: 10.0.0.1, rpcAddress: 10.9.0.1}", ("10.0.0.1",), "10.9.0.1"),
        ("{address: 'fd00::1'}", ("fd00::1",), None),
        ("{address: atlas.lan}", (), None),
        ("{connection: local}", ("127.0.0.1",), "127.0.0.1"),
        ("{connection: local, address: 10.0.0.1}", ("10.0.0.1",), "10.0.0.1"),
    ],
)
def test_addresses(node: str, listen: tuple[str, ...], rpc: str | None) -> None:
    text = HEAD + f"nodes: {{a: {node}}}\n{PARTS}placements: {{chat: {{model: gemma}}}}\n"
    resolved = _resolve(text)
    assert resolved.placements["chat"].listen == listen
    assert resolved.nodes["a"].rpc_address == rpc


def test_the_alias_is_the_placements_then_the_models_then_its_name() -> None:
    text = HEAD + "nodes: {a: {address: 10.0.0.1}}\n" + PARTS.replace("gemma.gguf", "gemma.gguf, alias: m")
    text += "placements:\n  p: {model: gemma, alias: own}\n  q: {model: gemma, server: {port: 81}}\n"
    resolved = _resolve(text)
    assert [resolved.placements[name].alias for name in "pq"] == ["own", "m"]


def test_login_settings_of_a_node_go_over_those_of_the_cluster() -> None:
    text = HEAD + "ssh: {port: 22, user: root}\nnodes: {a: {address: x, ssh: {port: 23}}, b: {address: y}}\n"
    resolved = _resolve(text)
    assert [(node.ssh.user, node.ssh.port) for node in resolved.nodes.values()] == [
        ("root", 23),
        ("root", 22),
    ]


def test_paths_are_relative_to_the_file_they_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    first, second = tmp_path / "one" / "a.yaml", tmp_path / "two" / "b.yaml"
    for file in (first, second):
        file.parent.mkdir()
    head = "apiVersion: hetctl/v1\nkind: Cluster\n"
    first.write_text(
        head + "name: den\nssh: {identity: ./key}\nnodes: {a: {address: 10.0.0.1}, b: {address: 10.0.0.2,"
        " ssh: {identity: ~/.ssh/b}}}\nmodels: {gemma: {source: m.gguf}, other: {source: /abs/m.gguf}}\n"
    )
    keys = "{me: {file: ./k}, you: {file: ~nobody-at-all/k}, he: {env: K}}"
    second.write_text(
        head + "builds: {main: {version: b1, source: {archive: ../src/a.tar.gz}}}\n"
        f"placements: {{chat: {{model: gemma, devices: [a/cpu], server: {{apiKeys: {keys}}}}}}}\n"
    )
    resolved = resolve(load([first, second]))
    assert resolved.models == {"gemma": tmp_path / "one" / "m.gguf", "other": Path("/abs/m.gguf")}
    assert resolved.archives == {"main": tmp_path / "two" / "../src/a.tar.gz"}
    assert resolved.nodes["a"].ssh.identity == str(tmp_path / "one" / "key")
    assert resolved.nodes["b"].ssh.identity == "/home/me/.ssh/b"
    found = resolved.placements["chat"].api_keys
    assert {name: key.file for name, key in found.items()} == {
        "me": str(tmp_path / "two" / "k"), "you": str(tmp_path / "two" / "~nobody-at-all/k"), "he": None,
    }  # fmt: skip


def test_a_cluster_that_was_not_checked_is_refused() -> None:
    cluster: Cluster = load_text(EXAMPLE_BASE)
    broken = cluster.model_copy(update={"models": {}})
    with pytest.raises(ManifestInvalid) as caught:
        resolve(broken)
    assert [problem.code for problem in caught.value.problems] == ["E207"]


@pytest.mark.parametrize(
    ("text", "version", "answer"),
    [
        ("10.0.0.1", None, True), ("10.0.0.1", 4, True), ("10.0.0.1", 6, False),
        ("::1", 6, True), ("::1", 4, False),
        ("10.0.0", None, False), ("010.0.0.1", None, False), ("host", None, False), ("", None, False),
    ],
)  # fmt: skip
def test_what_an_ip_address_is(text: str, version: int | None, answer: bool) -> None:
    assert is_ip(text, version) is answer
