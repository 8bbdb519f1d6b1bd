"""A proof fails for each way in which something looks right and is not; end_to_end has real processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from hetctl.errors import DeadlineExceeded, OperationFailed, ProofFailed
from hetctl.resources import proof
from hetctl.transport.fake import Answer, FakeSession

UNIT = "hetctl:den:chat:worker.service"
PROGRAM = "/b/ggml-rpc-server"
RUNNING = {
    "load": "loaded",
    "active": "active",
    "exe": PROGRAM,
    "restarts": 0,
    "invocation": "i1",
}
OURS = {"address": "10.0.0.7", "port": 20052, "pid": 7, "unit": UNIT, "exe": PROGRAM}
WORKER = {
    "unit": UNIT,
    "port": 20052,
    "listen": "10.0.0.7",
    "executable": PROGRAM,
    "protocol": "7.0.0",
    "devices": ["bench/left"],
}
HELLO = {"version": [7, 0, 0], "devices": [{"free": 1, "total": 2}]}
JOURNAL = {"lines": [{"time": 0, "message": "something is wrong", "cursor": ""}]}


def worker(
    *, unit: Mapping[str, Any] = RUNNING, owners: list[Any] | None = None, hello: Mapping[str, Any] = HELLO
) -> FakeSession:
    """Return the session of a node with a worker in a certain state."""

    def observe(call: Any) -> Mapping[str, Any]:
        kind = call.arguments["objects"][0]["type"]
        return {
            "states": [dict(unit) if kind == "unit" else {"owners": [OURS] if owners is None else owners}]
        }

    return FakeSession("bench", {"observe": observe, "probe_rpc": dict(hello), "journal": JOURNAL})


def test_a_worker_that_is_what_it_should_be() -> None:
    learned = proof.prove_worker(worker(), WORKER, deadline=0)
    assert learned == {"protocol": "7.0.0", "devices": HELLO["devices"], "invocation": "i1"}


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (worker(hello={**HELLO, "version": [7, 1, 0]}), "speaks RPC 7.1.0, its build should speak 7.0.0"),
        (worker(hello={**HELLO, "devices": []}), "offers 0 devices, 1 are declared"),
        (worker(hello={"busy": True, "peer": "10.0.0.9:4711"}), "is taken"),
        (worker(owners=[]), "nothing listens on 20052"),
        (worker(owners=[{**OURS, "unit": "old.service"}]), "port 20052 belongs to"),
        (worker(unit={**RUNNING, "exe": "/usr/bin/rpc-server"}), "runs /usr/bin/rpc-server"),
        (worker(unit={**RUNNING, "active": "activating"}), "is activating"),
        (worker(unit={**RUNNING, "active": "failed"}), "starts and ends"),
        (worker(unit={**RUNNING, "restarts": 1}), "starts and ends"),
    ],
)
def test_a_worker_that_is_not(node: FakeSession, told: str) -> None:
    with pytest.raises((ProofFailed, DeadlineExceeded)) as raised:
        proof.prove_worker(node, WORKER, deadline=0)
    assert told in f"{raised.value.what} {raised.value.why}"


@pytest.mark.parametrize(
    ("outcome", "holds"),
    [("refused", True), ("timed out", True), ("unreachable", True), ("connected", False)],
)
def test_a_closed_port_is_one_that_nobody_gets_into(outcome: str, *, holds: bool) -> None:
    stranger = FakeSession("spare", {"probe_tcp": {"outcome": outcome}})
    if holds:
        proof.prove_closed(stranger, "10.0.0.7", 20052)
        return
    with pytest.raises(ProofFailed):
        proof.prove_closed(stranger, "10.0.0.7", 20052)


API = proof.Api("http://127.0.0.1:8080")
CHAT = {"task": "chat", "prompt": "blue?", "expect": "blue"}
VECTOR = {"task": "embedding", "prompt": "x", "dimensions": 3}


def server(*answers: Any, status: int = 200) -> FakeSession:
    """Return the session of a node whose server gives these answers, one after the other."""
    told: list[Answer] = [{"status": status, "headers": {}, "text": json.dumps(answer)} for answer in answers]
    return FakeSession("atlas", {"http": told})


def said(text: str, *, finish: str = "stop", **more: str) -> Mapping[str, Any]:
    return {"choices": [{"message": {"content": text, **more}, "finish_reason": finish}]}


def embedded(*values: Any) -> Mapping[str, Any]:
    return {"data": [{"embedding": list(values)}]}


def ranked(*scores: float) -> Mapping[str, Any]:
    return {"results": [{"index": index, "relevance_score": score} for index, score in enumerate(scores)]}


@pytest.mark.parametrize(
    ("ready", "node"),
    [
        (CHAT, server(said("It is BLUE."))),
        (CHAT, server(said("", reasoning_content="blue, surely"))),
        (CHAT, server(said("Let me think", finish="length"), said("blue"))),
        ({**CHAT, "expect": None}, server(said("whatever"))),
        (VECTOR, server(embedded(0.1, 0.0, -1))),
        ({"task": "rerank"}, server(ranked(-3, 4))),
    ],
)
def test_what_a_placement_is_for(ready: Mapping[str, Any], node: FakeSession) -> None:
    assert proof.prove_task(node, API, ready, model="m", deadline=1)["seconds"] >= 0


@pytest.mark.parametrize(
    ("ready", "node", "told"),
    [
        (CHAT, server(said("red")), "does not contain 'blue'"),
        (CHAT, server(said("hm", finish="length"), said("hm", finish="length")), "does not contain 'blue'"),
        ({**CHAT, "expect": None}, server(said(" ")), "the answer is empty"),
        (CHAT, server({"error": "loading"}, status=503), "was refused"),
        (CHAT, server([1]), "no JSON object"),
        (VECTOR, server(embedded(0, 0, 0)), "all zeros"),
        (VECTOR, server(embedded(0.1, float("nan"), 1)), "finite"),
        (VECTOR, server(embedded()), "finite"),
        (VECTOR, server(embedded(1, 2)), "has 2 numbers, the model makes 3"),
        ({"task": "rerank"}, server(ranked(5, 4)), "prefers the document that does not answer"),
        ({"task": "rerank"}, server(ranked(0, 0)), "prefers the document that does not answer"),
        ({"task": "rerank"}, server(ranked(1)), "not complete"),
    ],
)
def test_what_only_looks_like_it(ready: Mapping[str, Any], node: FakeSession, told: str) -> None:
    with pytest.raises(ProofFailed) as raised:
        proof.prove_task(node, API, ready, model="m", deadline=1)
    assert told in raised.value.what


def test_no_answer_in_time() -> None:
    node = FakeSession("atlas", {"http": OperationFailed("no", why="timed out")})
    with pytest.raises(ProofFailed) as raised:
        proof.prove_task(node, API, CHAT, model="m", deadline=1)
    assert raised.value.why == "timed out"


@pytest.mark.parametrize(
    ("reported", "holds"), [("b11434-c34ed8f", True), ("b11435-c34ed8f", False), ("", False)]
)
def test_the_process_that_answers_is_the_declared_build(reported: str, *, holds: bool) -> None:
    node = server({"build_info": reported})
    if holds:
        proof.prove_build(node, API, number=11434, commit="c34ed8f")
        return
    with pytest.raises(ProofFailed):
        proof.prove_build(node, API, number=11434, commit="c34ed8f")


LOG = [
    "load_tensors: RPC0[10.0.0.7:20052] model buffer size =   136.15 MiB",
    "load_tensors:   CPU_Mapped model buffer size =   170.00 MiB",
]


@pytest.mark.parametrize(
    ("expected", "holds"),
    [({"RPC0[10.0.0.7:20052]": True}, True), ({"RPC0[10.0.0.8:20052]": True}, False), ({"x": False}, True)],
)
def test_every_device_holds_its_share(expected: Mapping[str, bool], *, holds: bool) -> None:
    lines = [{"time": 0, "message": line, "cursor": ""} for line in LOG]
    node = FakeSession("atlas", {"journal": {"lines": lines}})
    if holds:
        proof.prove_devices(node, UNIT, "i1", expected, number=11434)
        assert node.calls[0].arguments["invocation"] == "i1"
        return
    with pytest.raises(ProofFailed) as raised:
        proof.prove_devices(node, UNIT, "i1", expected, number=11434)
    assert "no part of the model is on" in raised.value.what
