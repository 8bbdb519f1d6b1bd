"""Whatever the bytes: a cluster, or ManifestInvalid; never anything else, and never for long."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hetctl.errors import ManifestInvalid, Problem
from hetctl.manifest import Cluster, load, load_text
from hetctl.manifest.parser import NODE_LIMIT
from hetctl.manifest.reader import SIZE_LIMIT
from hetctl.manifest.references import resolve
from hetctl.report.problems import problems_text
from tests.manifest.corpus import BAD, CASES

SECONDS = 5.0
"""Processor time that any manifest may take."""

VALID = (CASES / "good" / "everything-that-works.yaml").read_bytes()
PIECES = [
    b"\t", b": ", b"- ", b"[", b"]", b"{", b"}", b"&a ", b"*a", b"<<: ", b"!x ", b"'", b'"', b"|\n",
    b"\\", b"#",
    b"%YAML 1.2\n", b"---\n", b"...\n", b"? ", b"~", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"@", b"`",
    b"\xe2\x80\xa8", b'"\\UFFFFFFFF"', b'"\\uD800"', b"!!python/name:os.system ", b"0644", b"1" * 50,
]  # fmt: skip


def _problems(read: Callable[[], Cluster]) -> tuple[Problem, ...]:
    try:
        resolve(read())
    except ManifestInvalid as error:
        return error.problems or pytest.fail("invalid without a problem")
    return ()


def _load(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    text = problems_text(_problems(lambda: load([path])))
    assert all(character.isprintable() or character == "\n" for character in text)
    text.encode()


settings.register_profile(
    "bytes", deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
BYTES = settings.get_profile("bytes")


@BYTES
@given(st.binary(max_size=200))
@example(b'a: "\\UFFFFFFFF"')
@example(b"a: !<x")
@example(b"%TAG ! tag:x,2000:\n---\n!a b")
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    _load(tmp_path / "cluster.yaml", content)


@BYTES
@given(st.lists(st.sampled_from([*PIECES, b"a", b" ", b"\n", b"nodes", b"x-"]), max_size=40))
def test_any_heap_of_yaml(tmp_path: Path, pieces: list[bytes]) -> None:
    _load(tmp_path / "cluster.yaml", b"".join(pieces))


@BYTES
@given(
    st.lists(
        st.tuples(st.integers(0, len(VALID)), st.integers(0, 30), st.sampled_from([b"", *PIECES])), max_size=3
    )
)
def test_any_damage_to_a_valid_manifest(tmp_path: Path, damage: list[tuple[int, int, bytes]]) -> None:
    content = VALID
    for start, length, piece in damage:
        content = content[:start] + piece + content[start + length :]
    _load(tmp_path / "cluster.yaml", content)


@BYTES
@given(st.sampled_from(BAD), st.integers(0, 400), st.sampled_from(PIECES))
def test_any_damage_to_a_wrong_one(tmp_path: Path, path: Path, start: int, piece: bytes) -> None:
    content = path.read_bytes()
    _load(tmp_path / "cluster.yaml", content[:start] + piece + content[start:])


HEAD = "apiVersion: hetctl/v1\nkind: Cluster\nname: den\n"
REST = "builds: {b: {version: b1, source: {archive: a}}}\nmodels: {m: {source: a}}\n"
NODE = "nodes: {a: {address: 10.0.0.1}}\n"
MANY = NODE_LIMIT // 3


def _lines(line: Callable[[int], str], count: int, head: str = HEAD) -> str:
    return (head + "".join(line(number) for number in range(count)))[:SIZE_LIMIT]


HARD = {
    "deep lists": "[" * SIZE_LIMIT,
    "deep mappings": ("{a: " * SIZE_LIMIT)[:SIZE_LIMIT],
    "deep keys": ("? " * SIZE_LIMIT)[:SIZE_LIMIT],
    "deep blocks": ("- " * SIZE_LIMIT)[:SIZE_LIMIT],
    "one long list": HEAD + "x-a: [" + "1," * (NODE_LIMIT - 100) + "]\n",
    "one long list of mappings": HEAD + "x-a: [" + "{}," * (NODE_LIMIT - 100) + "]\n",
    "one long key": "a" * SIZE_LIMIT,
    "one long text": (HEAD + "x-a: " + "word " * SIZE_LIMIT)[:SIZE_LIMIT],
    "one long quoted text": HEAD + 'x-a: "' + "\\x41" * (SIZE_LIMIT // 4 - 100) + '"\n',
    "nothing but comments": ("# x\n" * SIZE_LIMIT)[:SIZE_LIMIT],
    "nothing but lines": "\n" * SIZE_LIMIT,
    "many documents": ("---\n" * SIZE_LIMIT)[:SIZE_LIMIT],
    "many small documents": ("---\na: 1\n" * SIZE_LIMIT)[:SIZE_LIMIT],
    "many anchors": _lines(lambda n: f"x-{n}: &a{n} 1\n", MANY),
    "many aliases": HEAD + "x-a: &a 1\nx-b: [" + "*a," * (NODE_LIMIT - 100) + "]\n",
    "a thousand million laughs": HEAD + "x-a: &a [1]\n" + "".join(
        f"x-{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
    ),
    "laughs by merging": HEAD + "x-a: &a {" + ", ".join(f"k{n}: 1" for n in range(90)) + "}\n" + _lines(
        lambda n: f"x-{n}: {{<<: [*a, *a]}}\n", MANY, ""
    ),
    "one key again and again": _lines(lambda _: "a: 1\n", MANY),
    "unknown keys": _lines(lambda n: f"node{n}: 1\n", MANY),
    "unknown keys in nodes": _lines(lambda n: f"  n{n}: {{adress: a}}\n", MANY, HEAD + "nodes:\n"),
    "nodes without address": _lines(lambda n: f"  n{n}: {{}}\n", MANY, HEAD + "nodes:\n"),
    "nodes at one address": _lines(lambda n: f"  n{n}: {{address: a}}\n", MANY, HEAD + "nodes:\n"),
    "equal cards": HEAD + "nodes: {a: {address: b, gpus: {"
    + ",".join(f"k{n}: {{match: RTX}}" for n in range(MANY)) + "}}}\n",
    "placements on one port": _lines(
        lambda n: f"  p{n}: {{model: m, devices: [a/cpu]}}\n", MANY // 2, HEAD + NODE + REST + "placements:\n"
    ),
    "placements on one device": _lines(
        lambda n: f"  p{n}: {{model: m, devices: [a/w], server: {{port: {n + 1}}}}}\n", MANY // 4,
        HEAD + "nodes: {a: {address: 10.0.0.1, cpuWorkers: {w: {}}}}\n" + REST + "placements:\n",
    ),
    "placements that are all wrong": _lines(
        lambda n: f"  p{n}: {{model: m{n}, devices: [b{n}/c]}}\n", MANY // 2, HEAD + NODE + "placements:\n"
    ),
    "unknown devices": HEAD + "nodes: {a: {address: 10.0.0.1, cpuWorkers: {"
    + ",".join(f"w{n}: {{}}" for n in range(MANY // 2)) + "}}}\n" + REST
    + "placements: {c: {model: m, devices: [" + ",".join(f"a/v{n}" for n in range(MANY)) + "]}}\n",
    "arguments": HEAD + "placements: {c: {model: m, args: [" + "-c," * (NODE_LIMIT - 100) + "]}}\n",
    "wrong arguments": HEAD + "placements: {c: {model: m, args: [" + "1," * (NODE_LIMIT - 100) + "]}}\n",
    "secrets on one line": HEAD + "nodes: {a: {address: b, env: {"
    + ",".join(f"KEY{n}: 1" for n in range(MANY)) + "}}}\n",
    "virtual machines on each other": _lines(
        lambda n: f"  v{n}: {{on: v{n + 1}}}\n", MANY // 2, HEAD + "vms:\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_the_hardest_manifests_end_soon(text: str) -> None:
    assert len(text.encode()) <= SIZE_LIMIT
    start = time.process_time()
    problems_text(_problems(lambda: load_text(text)))
    assert time.process_time() - start < SECONDS


def test_ten_megabytes_are_refused_at_once(tmp_path: Path) -> None:
    start = time.process_time()
    for content in (VALID * 10_000, b"[" * 10**7, bytes(10**7)):
        _load(tmp_path / "cluster.yaml", content[: 10**7])
    assert time.process_time() - start < 1


def test_many_small_files_share_one_limit(tmp_path: Path) -> None:
    text = "x-a: &a [" + "1," * 40 + "]\nx-b: &b [" + "*a," * 30 + "]\n"
    for number in range(100):
        (tmp_path / f"{number}.yaml").write_text(text)
    with pytest.raises(ManifestInvalid) as caught:
        load([tmp_path])
    assert "E012" in {problem.code for problem in caught.value.problems}
