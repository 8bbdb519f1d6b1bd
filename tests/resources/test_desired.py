"""What the manifest wants of nodes that said this or that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetctl.resources.desired_build import LOCAL
from hetctl.rules.finding import Severity
from tests.fit import gguf_writer
from tests.resources.den import FACTS, Den, machine

NODES = """
nodes:
  atlas: {address: 10.0.0.5}
  bench: {address: 10.0.0.7, cpuWorkers: {left: {threads: 4}, right: {threads: 2}}}
  attic: {address: 10.0.0.8, cpuWorkers: {pool: {threads: 2}}}
"""
CHAT = """
placements:
  chat:
    model: gemma
    devices: [bench/right, attic/pool, bench/left]
    server: {node: atlas, apiKeys: {me: {env: CHAT_KEY}}}
"""
FIVE_LAYERS = gguf_writer.transformer(layers=5)


@pytest.fixture
def den(tmp_path: Path) -> Den:
    return Den(tmp_path, NODES + CHAT, model=FIVE_LAYERS)


def layers(den: Den) -> dict[str, int]:
    found: dict[str, int] = den.wanted["server/chat"].spec["settings"]["layers"]
    return found


def ports(den: Den) -> dict[str, int]:
    return {item.address: item.spec["port"] for item in den.wanted.values() if item.kind == "worker"}


def without(*tools: str) -> dict[str, Any]:
    return {"tools": {name: tool for name, tool in FACTS["tools"].items() if name not in tools}}


# -- decided once, then kept -------------------------------------------------------------------------------


def test_a_second_look_wants_the_same(den: Den) -> None:
    first = den.wanted
    again = den.applied().wanted
    assert {name: item.spec_hash for name, item in again.items()} == {
        name: item.spec_hash for name, item in first.items()
    }


def test_ports_that_were_chosen_stay_when_others_become_free(den: Den) -> None:
    busy = [{"address": "0.0.0.0", "port": 20052, "pid": 7, "exe": "/usr/bin/other", "unit": "other.service"}]
    before = replace(den, facts={"bench": {"listeners": busy}})
    assert ports(before) == {
        "worker/chat@bench.right": 20053,
        "worker/chat@bench.left": 20054,
        "worker/chat@attic.pool": 20052,
    }
    assert ports(replace(before.applied(), facts={})) == ports(before)


def test_our_own_listeners_and_marks_of_other_clusters_take_no_port_twice(den: Den) -> None:
    applied = den.applied()
    listening = [
        {
            "address": "10.0.0.7",
            "port": port,
            "pid": 1,
            "exe": "",
            "unit": "hetctl:den:chat:worker:left.service",
        }
        for port in (20052, 20053)
    ]
    assert ports(replace(applied, facts={"bench": {"listeners": listening}})) == ports(den)


def test_layers_that_were_chosen_stay_whatever_would_be_chosen_now(den: Den) -> None:
    assert layers(den) == {"bench/right": 2, "attic/pool": 2, "bench/left": 1}
    marks = [
        replace(
            mark,
            spec={
                **mark.spec,
                "settings": {
                    **mark.spec["settings"],
                    "layers": {"attic/pool": 1, "bench/left": 0, "bench/right": 4},
                },
            },
        )
        if mark.kind == "server"
        else mark
        for mark in den.applied().marks
    ]
    kept = replace(den, marks=marks)
    assert list(layers(kept).items()) == [("bench/right", 4), ("attic/pool", 1), ("bench/left", 0)]
    # other devices, another order of them or another model are another question
    shuffled = kept.manifest.replace(
        "[bench/right, attic/pool, bench/left]", "[attic/pool, bench/right, bench/left]"
    )
    assert layers(replace(kept, manifest=shuffled)) == {"attic/pool": 2, "bench/right": 2, "bench/left": 1}
    assert sum(layers(replace(kept, model=gguf_writer.transformer(layers=9))).values()) == 9


def test_layers_that_were_counted_are_no_choice_to_keep(den: Den) -> None:
    counted = "    layers: {bench/right: 1, attic/pool: 1, bench/left: 2, cpu: 1}\n"
    explicit = replace(den, manifest=den.manifest + counted)
    assert layers(explicit) == {"bench/right": 1, "attic/pool": 1, "bench/left": 2, "cpu": 1}
    back_to_auto = replace(explicit.applied(), manifest=den.manifest)
    assert layers(back_to_auto) == layers(den)


def test_a_build_stays_what_it_is_when_its_first_choice_would_be_another(den: Den) -> None:
    build = den.wanted["build/main@atlas"].spec
    assert build["toolchain"]["node"] == "atlas"
    applied = den.applied()
    newer = {"tools": {**FACTS["tools"], "g++": {"path": "/usr/bin/g++", "version": "g++ 15.1.0"}}}
    more = {"cpu": {**FACTS["cpu"], "flags": [*FACTS["cpu"]["flags"], "fma"]}}
    changed = {"atlas": {**newer, **more}, "bench": more, "attic": more}
    assert replace(applied, facts=changed).wanted["build/main@atlas"].spec == build
    assert replace(den, facts=changed).wanted["build/main@atlas"].spec["key"] != build["key"]


def test_a_node_that_cannot_run_the_build_asks_for_another(den: Den) -> None:
    key = den.wanted["build/main@atlas"].spec["key"]
    older = replace(den.applied(), facts={"attic": {"cpu": {**FACTS["cpu"], "flags": ["sse4_2"]}}})
    wanted = older.wanted["build/main@attic"].spec
    assert wanted["key"] != key
    assert wanted["identity"]["cpu"]["GGML_AVX2"] == "OFF"


# -- nodes that did not answer -----------------------------------------------------------------------------


def test_a_silent_node_keeps_its_recorded_endpoint(tmp_path: Path) -> None:
    manifest = NODES.replace("bench: {address: 10.0.0.7,", "bench: {address: bench.lan,") + CHAT
    den = Den(tmp_path, manifest, model=FIVE_LAYERS)
    marks = [
        replace(mark, spec={**mark.spec, "workers": [_moved(worker) for worker in mark.spec["workers"]]})
        if mark.kind == "server"
        else mark
        for mark in den.applied().marks
        if mark.node != "bench"  # nobody can read those
    ]
    silent = replace(den, marks=marks, facts={"bench": None})
    assert silent.wanted["server/chat"].spec["arguments"][:2] == [
        "--rpc",
        "10.9.9.9:20077,10.0.0.8:20052,10.9.9.9:20053",
    ]


def _moved(worker: Mapping[str, Any]) -> dict[str, Any]:
    if not worker["address"].startswith("worker/chat@bench"):
        return dict(worker)
    port = 20077 if worker["address"].endswith("right") else worker["port"]
    return {**worker, "listen": "10.9.9.9", "port": port}


def test_resources_of_a_silent_node_are_wanted_all_the_same(den: Den) -> None:
    silent = replace(den, facts={"attic": None})
    assert set(silent.wanted) == set(den.wanted)
    assert silent.troubles() == set()


# -- packet filters ----------------------------------------------------------------------------------------


def test_only_the_heads_own_address_on_that_route_gets_through(den: Den) -> None:
    routed = replace(den, sources={"atlas": {"10.0.0.7": "192.168.7.5", "10.0.0.8": ""}})
    wanted = routed.wanted
    assert wanted["firewall/chat@bench"].spec["ports"] == {"20052": ["192.168.7.5"], "20053": ["192.168.7.5"]}
    # without a route yet: the address everybody knows the head by
    assert wanted["firewall/chat@attic"].spec["ports"] == {"20052": ["10.0.0.5"]}
    assert "firewall/chat@atlas" not in wanted
    unit = wanted["worker/chat@bench.left"].spec["unit_text"]
    assert "IPAddressAllow=10.0.0.7 127.0.0.0/8 192.168.7.5\n" in unit


def test_a_worker_beside_its_head_needs_no_filter(tmp_path: Path) -> None:
    manifest = (
        NODES + "placements:\n  chat: {model: gemma, devices: [bench/left], server: {listen: [127.0.0.1]}}\n"
    )
    wanted = Den(tmp_path, manifest).wanted
    assert not [address for address in wanted if address.startswith("firewall/")]
    assert wanted["worker/chat@bench.left"].spec["listen"] == "127.0.0.1"


def test_allow_from_guards_the_api(den: Den) -> None:
    guarded = replace(
        den,
        manifest=den.manifest.replace(
            "me: {env: CHAT_KEY}}", "me: {env: CHAT_KEY}}, allowFrom: [10.0.0.0/24]"
        ),
    )
    assert guarded.wanted["firewall/chat@atlas"].spec["ports"] == {"8080": ["10.0.0.0/24"]}


# -- findings ----------------------------------------------------------------------------------------------


def test_a_sound_cluster_has_no_finding_that_warns(den: Den) -> None:
    assert den.troubles() == set()


ERRORS: list[tuple[str, str, dict[str, Mapping[str, Any]]]] = [
    ("NO_SYSTEMD", "attic", {"attic": {"pid1": "supervisord"}}),
    ("NFTABLES_MISSING", "bench", {"bench": without("nft")}),
    (
        "DISK_TOO_SMALL",
        "atlas",
        {"atlas": {"disks": {"/var/lib/hetctl/models": {"total": 2**40, "free": 2**30}}}},
    ),
    (
        "PATH_CLOSED",
        "atlas",
        {"atlas": {"disks": {"/var/lib/hetctl/models": {"total": 2**40, "free": 2**40, "closed": "/data"}}}},
    ),
    (
        "PATH_CLOSED",
        "attic",
        {"attic": {"disks": {"/var/lib/hetctl/builds": {"total": 2**40, "free": 2**40, "noexec": True}}}},
    ),
    ("GLIBC_TOO_OLD", "attic", {"attic": {"glibc": "2.31"}}),
    ("BUILD_ARCHITECTURE", "attic", {"attic": {"architecture": "aarch64"}}),
]


@pytest.mark.parametrize(("code", "where", "facts"), ERRORS, ids=[code for code, _, _ in ERRORS])
def test_what_a_node_lacks_blocks_with_its_name(
    den: Den, code: str, where: str, facts: Mapping[str, Mapping[str, Any]]
) -> None:
    (finding,) = [each for each in replace(den, facts=facts).state.findings if each.code == code]
    assert (finding.where, finding.severity) == (where, Severity.ERROR)
    assert finding.fix


def test_a_model_that_is_there_needs_no_room(den: Den) -> None:
    full = {"atlas": {"disks": {"/var/lib/hetctl/models": {"total": 2**40, "free": 0}}}}
    assert "DISK_TOO_SMALL" in replace(den, facts=full).codes()
    assert "DISK_TOO_SMALL" not in replace(den.applied(), facts=full).codes()


def test_another_model_needs_room_beside_the_one_that_is_there(den: Den) -> None:
    full = {"atlas": {"disks": {"/var/lib/hetctl/models": {"total": 10**12, "free": 10**9}}}}
    there = den.applied()
    older = [
        replace(mark, spec={**mark.spec, "path": "/var/lib/hetctl/models/den/gemma-00/gemma.gguf"})
        if mark.kind == "model"
        else mark
        for mark in there.marks
    ]
    assert "DISK_TOO_SMALL" in replace(there, marks=older, facts=full).codes()


def test_no_compiler_anywhere(den: Den) -> None:
    bare = without("g++", "cmake")
    nodes = dict.fromkeys(("atlas", "bench", "attic"), bare)
    alone = replace(den, facts=nodes, operator=lambda: machine(**bare))
    (finding,) = [each for each in alone.state.findings if each.code == "TOOLCHAIN_MISSING"]
    assert finding.severity is Severity.ERROR
    assert "cmake" in finding.why
    # the operator's machine is the last resort
    helped = replace(alone, operator=machine)
    assert helped.troubles() == set()
    assert helped.wanted["build/main@atlas"].spec["toolchain"]["node"] == LOCAL


def test_an_api_without_keys_is_open_unless_only_the_node_itself_hears_it(den: Den) -> None:
    keys = ", apiKeys: {me: {env: CHAT_KEY}}"
    assert "API_OPEN" in replace(den, manifest=den.manifest.replace(keys, "")).codes()
    inside = den.manifest.replace(keys, ", listen: [127.0.0.1]")
    assert "API_OPEN" not in replace(den, manifest=inside).codes()


def test_workers_that_only_their_address_protects_are_open(den: Den) -> None:
    bare = replace(den, manifest=den.manifest + "    rpc: {exposure: address}\n")
    assert {"RPC_OPEN"} <= bare.codes()
    assert not [address for address in bare.wanted if address.startswith("firewall/")]
    # nothing to open when all of it is inside one machine
    alone = bare.manifest.replace("[bench/right, attic/pool, bench/left]", "[bench/left]").replace(
        "atlas,", "bench,"
    )
    assert replace(bare, manifest=alone).codes() == set()
    assert replace(bare, manifest=alone, version="b11002").codes() == set()


def test_a_card_that_the_build_cannot_drive_blocks(tmp_path: Path) -> None:
    manifest = """
nodes:
  atlas: {address: 10.0.0.5, gpus: {fast: {match: RTX 5060 Ti, memory: 16GiB}}}
placements:
  chat: {model: gemma, devices: [atlas/fast], server: {listen: [127.0.0.1]}}
"""
    (finding,) = Den(tmp_path, manifest).state.findings
    assert (finding.code, finding.where, finding.severity) == (
        "BACKEND_MISSING",
        "atlas/fast",
        Severity.ERROR,
    )
    assert finding.position is not None


# -- known faults of builds --------------------------------------------------------------------------------


def test_two_workers_on_a_current_build_meet_no_known_fault(den: Den) -> None:
    two = den.manifest.replace("[bench/right, attic/pool, bench/left]", "[bench/right, attic/pool]")
    assert replace(den, manifest=two).state.findings == ()


def test_a_fault_that_was_only_heard_of_is_told_and_no_more(den: Den) -> None:
    (finding,) = den.state.findings
    assert (finding.code, finding.severity) == ("THREE_WORKERS_HANG", Severity.INFO)


@pytest.mark.parametrize(
    ("version", "more", "code"),
    [
        ("b10600", "", "POINTERS_OF_ANOTHER_WORKER"),
        ("b11434", "    cacheRam: 1GiB\n", "PROMPT_CACHE_OVER_WORKERS"),
        ("b11002", "    rpc: {exposure: address}\n", "WORKER_TAKES_CODE"),
        ("b11434", "    env: {GGML_CUDA_P2P: '0'}\n", "PEER_ACCESS_BY_PRESENCE"),
        ("b11434", "    task: embedding\n", "EMBEDDING_LOGITS"),
    ],
)
def test_a_known_fault_is_found_with_its_source_and_a_way_round_it(
    den: Den, version: str, more: str, code: str
) -> None:
    met = replace(den, version=version, manifest=den.manifest + more)
    (finding,) = [each for each in met.state.findings if each.code == code]
    assert finding.where == "placement chat"
    assert finding.fix
    assert "b11434" in finding.why or "github.com" in finding.why
    assert finding.position is not None
    assert finding.position.line > 1


def test_what_the_manifest_leaves_open_never_meets_the_fault_it_could_avoid(den: Den) -> None:
    assert "PROMPT_CACHE_OVER_WORKERS" not in den.codes()
    arguments = den.wanted["server/chat"].spec["arguments"]
    assert arguments[arguments.index("-cram") + 1] == "0"
