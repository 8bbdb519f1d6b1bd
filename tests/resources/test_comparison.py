"""A plan says of each change which key of the manifest asks for it, from what to what, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hetctl.resources.base import Observed, Reason
from hetctl.resources.marks import PROVED, mark_for
from hetctl.resources.registry import KINDS
from tests.resources.den import Den

BASE = """
nodes:
  atlas: {address: 10.0.0.5}
  bench: {address: 10.0.0.7, cpuWorkers: {left: {threads: 4}}}
  attic: {address: 10.0.0.8, cpuWorkers: {pool: {threads: 2}}}
  loft: {address: 10.0.0.6}
placements:
  chat: {model: gemma, devices: [bench/left, attic/pool], server: {node: atlas}}
"""
SERVER = "server: {node: atlas}"
LEFT, CHAT = "worker/chat@bench.left", "server/chat"


def more(text: str) -> tuple[str, str]:
    return SERVER, f"{SERVER}, {text}"


def server(text: str) -> tuple[str, str]:
    return "{node: atlas}", f"{{node: atlas, {text}}}"


CASES: dict[str, tuple[tuple[str, str], str, str, str]] = {
    # what changes: from and to, resource, the reason, what stands where the reason points
    "context": (more("context: 4096"), CHAT, "context 8192 -> 4096", "4096"),
    "slots": (more("slots: 3"), CHAT, "slots 1 -> 3", "3"),
    "unified KV": (more("kvUnified: true"), CHAT, "kvUnified off -> on", "true"),
    "KV types": (more("kvCache: {k: q8_0}"), CHAT, "kvCache.k f16 -> q8_0", "q8_0"),
    "layers": (
        more("layers: {bench/left: 3, attic/pool: 1}"), CHAT, "layers of bench/left 2 -> 3", "3",
    ),
    "device order": (
        ("[bench/left, attic/pool]", "[attic/pool, bench/left]"), CHAT,
        "devices bench/left,attic/pool -> attic/pool,bench/left", "[attic/pool",
    ),
    "batch": (more("batch: 512"), CHAT, "batch 2048 -> 512", "512"),
    "flash attention": (more("flashAttention: off"), CHAT, "flashAttention on -> off", "off"),
    "threads of the server": (more("threads: 3"), CHAT, "threads (none) -> 3", "3"),
    "threads of a worker": (("threads: 4", "threads: 3"), LEFT, "threads 4 -> 3", "{threads: 3}"),
    "alias": (more("alias: me"), CHAT, "alias chat -> me", "me"),
    "arguments": (more("args: [--metrics]"), CHAT, "args (none) -> --metrics", "[--metrics]"),
    "the question": (more("ready: {prompt: hi}"), CHAT,
        "ready.prompt Name three colours of the rainbow. -> hi", "hi"),
    "port": (server("port: 9000"), CHAT, "port 8080 -> 9000", "9000"),
    "listen": (server("listen: [10.0.0.6]"), CHAT, "listen 10.0.0.5 -> 10.0.0.6", "[10.0.0.6]"),
    "clients": (server("allowFrom: [10.9.0.0/16]"), CHAT, "allowFrom (none) -> 10.9.0.0/16", "[10.9"),
    "a key": (
        server("apiKeys: {me: {env: K}}"), CHAT,
        "apiKeys in (none) -> /var/lib/hetctl/clusters/den/secrets/chat.api-keys", "{me: {env",
    ),
    "the port of workers": (more("rpc: {port: 20500}"), LEFT, "port 20052 -> 20500", "20500"),
    "... for the server": (
        more("rpc: {port: 20500}"), CHAT,
        "endpoints 10.0.0.7:20052,10.0.0.8:20052 -> 10.0.0.7:20500,10.0.0.8:20500", "{port: 20500}",
    ),
    "... for the filter": (
        more("rpc: {port: 20500}"), "firewall/chat@bench", "port 20500 open to (none) -> 10.0.0.5", "20500",
    ),
    "exposure": (more("rpc: {exposure: address}"), LEFT, "exposure firewall -> address", "address"),
    "environment": (more("env: {A: b}"), CHAT, "env A (none) -> b", "b"),
    "environment of a node": (
        ("bench: {", "bench: {env: {A: b}, "), LEFT, "env A (none) -> b", "b",
    ),
    "where builds lie": (
        ("bench: {", "bench: {paths: {builds: /data/b}, "), LEFT, "executable /var/lib/", "/data/b",
    ),
    "... for the build": (
        ("bench: {", "bench: {paths: {builds: /data/b}, "), "build/main@bench", "path /var/lib/",
        "/data/b",
    ),
    "where models lie": (
        ("atlas: {", "atlas: {paths: {models: /data/m}, "), CHAT, "model_path /var/lib/", "/data/m",
    ),
    "address of a node": (
        ("10.0.0.7", "10.0.0.9"), "member/atlas",
        "address of bench 10.0.0.7 -> 10.0.0.9", "{address: 10.0.0.9",
    ),
    "a node that joins": (
        ("placements:", "  nook: {address: 10.0.0.9}\nplacements:"), "member/atlas", "nook joins", "{address",
    ),
    "a node that goes": (
        ("  loft: {address: 10.0.0.6}\n", ""), "member/atlas", "loft is not declared any more", "{address",
    ),
    "rpcAddress": (
        ("bench: {", "bench: {rpcAddress: 10.1.0.7, "), LEFT, "listen 10.0.0.7 -> 10.1.0.7", "10.1.0.7",
    ),
    "version": (("VERSION", "b11435"), CHAT, "version b11434 -> b11435", "b11435"),
    "... for a worker": (("VERSION", "b11435"), LEFT, "version b11434 -> b11435", "b11435"),
    "state": (more("state: stopped"), LEFT, "state running -> stopped", "stopped"),
}  # fmt: skip


def reasons(folder: Path, change: tuple[str, str]) -> Mapping[str, tuple[Reason, ...]]:
    """Return why each resource changes that stands already."""
    old = Den(folder, BASE)
    before = old.wanted
    new = replace(old.applied(), manifest=BASE.replace(*change))
    if change[0] == "VERSION":
        new = replace(new, version=change[1])
    assert (new.manifest, new.version) != (BASE, old.version)
    found = {}
    for address, item in new.wanted.items():
        if address in before:
            mark = mark_for(before[address], cluster="den", generation=1, state=PROVED)
            said = KINDS[item.kind].compare(item, Observed(mark)).reasons
            found[address] = tuple(reason for reason in said if not reason.drift)
    return found


@pytest.mark.parametrize("what", CASES)
def test_each_change_names_its_key_and_its_line(tmp_path: Path, what: str) -> None:
    change, address, text, pointed = CASES[what]
    said = reasons(tmp_path, change)[address]
    matching = [reason for reason in said if reason.text.startswith(text)]
    assert len(matching) == 1, said
    position = matching[0].position
    assert position is not None
    line = (tmp_path / "cluster.yaml").read_text().splitlines()[position.line - 1]
    assert line[position.column - 1 :].startswith(pointed)


@pytest.mark.parametrize("what", CASES)
def test_no_change_is_left_without_a_line(tmp_path: Path, what: str) -> None:
    for address, said in reasons(tmp_path, CASES[what][0]).items():
        for reason in said:
            assert reason.position is not None, (address, reason)
            assert "rendered differently" not in reason.text
