"""Proofs: that what was started is what was declared, and that it works.

A listening port, a green `/health` and an active unit prove nothing: llama.cpp answers 200 while generation
hangs. Each proof here asks for the thing itself, with a deadline.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hetctl.catalog.logs import explain_failure, read_server_log
from hetctl.errors import DeadlineExceeded, OperationFailed, ProofFailed
from hetctl.resources.obstacles import describe_owner
from hetctl.transport.base import Json, Session

POLL_SECONDS = 0.2
JOURNAL_LINES = 4000

SHORT_ANSWER = 24
LONG_ANSWER = 512
"""Tokens. A model that thinks before it answers needs the second."""

RERANK_QUERY = "What is a panda?"
RERANK_DOCUMENTS = (
    "The train to the coast leaves at nine.",
    "The giant panda is a bear that lives in China and eats bamboo.",
)
RERANK_RELEVANT = 1


@dataclass(frozen=True, slots=True)
class Api:
    """How the node itself reaches a server's API.

    Arguments:
        base: Such as `http://10.0.0.5:8080`.
        key_file: File on the node whose first line opens it; empty for none.
    """

    base: str
    key_file: str = ""


def wait_until(
    check: Callable[[], str], *, deadline: float, what: str, node: str, pause: float = POLL_SECONDS
) -> None:
    """Call `check` until it returns an empty string.

    Arguments:
        check: Returns what is still missing, empty when nothing is.
        deadline: Seconds it may take.
        what: What was waited for, for the error.
        node: Where.
        pause: Seconds between two checks.

    Raises:
        DeadlineExceeded: It took longer; says what was missing at last.
    """
    end = time.monotonic() + deadline
    while missing := check():
        if time.monotonic() >= end:
            raise DeadlineExceeded(f"{what} took longer than {deadline:.0f} s", where=node, why=missing)
        time.sleep(pause)


def unit_state(session: Session, unit: str) -> Mapping[str, Json]:
    """Return the agent's view of one unit."""
    states = session.call("observe", {"objects": [{"type": "unit", "name": unit}]})["states"]
    state: Mapping[str, Json] = states[0]
    return state


def wait_running(
    session: Session, unit: str, executable: str, *, deadline: float, restarts: int = 0
) -> Mapping[str, Json]:
    """Wait until a unit's main process runs the given binary and return the unit's state.

    Arguments:
        session: Of its node.
        unit: Its name.
        executable: Absolute path of the binary.
        deadline: Seconds it may take.
        restarts: How often systemd had started it anew before.

    Raises:
        ProofFailed: It runs another binary, or ended.
        DeadlineExceeded: It did not start in time.
    """
    found: dict[str, Json] = {}

    def check() -> str:
        found.clear()
        found.update(unit_state(session, unit))
        if found.get("active") == "failed" or int(found.get("restarts") or 0) > restarts:
            raise ended(session, unit)
        if found.get("active") != "active":
            return f"{unit} is {found.get('active')}"
        return "" if found.get("exe") == executable else f"{unit} runs {found.get('exe') or 'nothing'}"

    wait_until(check, deadline=deadline, what=f"starting {unit}", node=session.node)
    return found


def last_words(session: Session, unit: str, lines: int = 15) -> str:
    """Return the end of a unit's journal."""
    answer = session.call("journal", {"unit": unit, "lines": lines, "follow": False})
    return "\n".join(str(line["message"]) for line in answer["lines"])


def ended(session: Session, unit: str) -> ProofFailed:
    """Return the error for a unit whose process ends again and again, explained where its log is known."""
    words = last_words(session, unit, lines=60)
    program = "llama-server" if unit.endswith(":server.service") else "ggml-rpc-server"
    known = explain_failure(words.splitlines(), program)
    if known is not None:
        return ProofFailed(
            known.what, where=f"{session.node}, {unit}", why=f"{known.why}: {known.line}", fix=known.fix
        )
    return ProofFailed(f"{unit} starts and ends", where=session.node, why="\n".join(words.splitlines()[-15:]))


def prove_worker(session: Session, spec: Mapping[str, Json], *, deadline: float) -> Mapping[str, Json]:
    """Prove that a worker listens, speaks the build's protocol and offers the declared devices.

    Arguments:
        session: Of its node.
        spec: Of the worker.
        deadline: Seconds it may take to start.

    Returns:
        What was learned: protocol, memory of the devices, invocation.
    """
    unit, port = spec["unit"], spec["port"]
    state = wait_running(session, unit, spec["executable"], deadline=deadline)

    def listens() -> str:
        answer = session.call("observe", {"objects": [{"type": "listener", "port": port}]})
        owners = answer["states"][0].get("owners") or []
        ours = [owner for owner in owners if owner.get("unit") == unit]
        if ours:
            return ""
        return (
            f"port {port} belongs to {describe_owner(owners[0])}" if owners else f"nothing listens on {port}"
        )

    wait_until(listens, deadline=deadline, what=f"{unit} opening port {port}", node=session.node)
    answer = session.call("probe_rpc", {"address": spec["listen"], "port": port, "timeout": 10}, deadline=30)
    if answer.get("busy"):
        raise ProofFailed(
            f"worker {spec['listen']}:{port} is taken",
            where=session.node,
            why=f"{answer.get('peer')} is connected to it",
            fix="stop the other head, a worker serves one at a time",
        )
    who = f"worker {spec['listen']}:{port}"
    protocol = ".".join(str(part) for part in answer["version"])
    if protocol != spec["protocol"]:
        raise ProofFailed(
            f"{who} speaks RPC {protocol}, its build should speak {spec['protocol']}", where=session.node
        )
    devices, declared = answer["devices"], spec["devices"]
    if len(devices) != len(declared):
        raise ProofFailed(
            f"{who} offers {len(devices)} devices, {len(declared)} are declared", where=session.node
        )
    return {"protocol": protocol, "devices": devices, "invocation": state.get("invocation")}


def prove_closed(session: Session, address: str, port: int) -> None:
    """Prove that a node that has no business with a worker cannot connect to it.

    Raises:
        ProofFailed: It could.
    """
    answer = session.call("probe_tcp", {"address": address, "port": port, "timeout": 1.5}, deadline=15)
    if answer["outcome"] == "connected":
        raise ProofFailed(
            f"{session.node} can connect to the worker {address}:{port}",
            where=session.node,
            why="the packet filter does not keep it out",
            fix="look for a rule that accepts the packet before hetctl's table does",
        )


def wait_for_api(
    session: Session,
    unit: str,
    api: Api,
    *,
    deadline: float,
    say: Callable[[str], None],
    restarts: int = 0,
) -> None:
    """Wait until a server says that its model is loaded.

    Arguments:
        session: Of its node.
        unit: Its name.
        api: How the node reaches it.
        deadline: Seconds it may take.
        say: Told how it is going.
        restarts: How often systemd had started it anew before.

    Raises:
        ProofFailed: Its process ended; carries its last words.
        DeadlineExceeded: It took longer than declared under `ready.within`.
    """

    def check() -> str:
        state = unit_state(session, unit)
        if state.get("active") == "failed" or int(state.get("restarts") or 0) > restarts:
            raise ended(session, unit)
        asked = {"method": "GET", "url": f"{api.base}/health", "timeout": 5}
        try:
            answer = session.call("http", asked, deadline=15)
        except OperationFailed as error:
            return f"{error.what}: {error.why}"
        if answer["status"] == 200:  # noqa: PLR2004 - HTTP OK
            return ""
        say("loading the model")
        return f"{answer['status']}: {answer['text'][:200]}"

    wait_until(check, deadline=deadline, what=f"{unit} loading its model", node=session.node)


def prove_devices(
    session: Session, unit: str, invocation: str, expected: Mapping[str, bool], *, number: int
) -> dict[str, dict[str, int]]:
    """Prove that every declared device holds its share of the model.

    Arguments:
        session: Of the head's node.
        unit: The server's unit.
        invocation: Of the unit's present run.
        expected: Name of each device's buffers -> whether it holds layers.
        number: Build number: decides how the log reads.

    Returns:
        The buffers found: device -> what -> bytes.
    """
    answer = session.call(
        "journal",
        {
            "unit": unit,
            "lines": JOURNAL_LINES,
            "invocation": invocation,
            "follow": False,
            "grep": "buffer size",
        },
        deadline=60,
    )
    found = read_server_log([str(line["message"]) for line in answer["lines"]], number).buffers
    empty = [
        name for name, holds in expected.items() if holds and (name not in found or not found[name].model)
    ]
    if empty:
        raise ProofFailed(
            f"no part of the model is on {', '.join(empty)}",
            where=session.node,
            why=f"the log of {unit} reports buffers on {', '.join(sorted(found)) or 'no device'}",
        )
    return {
        name: {"model": sizes.model, "kv": sizes.kv, "compute": sizes.compute}
        for name, sizes in found.items()
    }


def prove_build(session: Session, api: Api, *, number: int, commit: str) -> None:
    """Prove that the process that answers is the build that was declared."""
    answer = call_api(session, api, "GET", "/props", None, deadline=15)
    reported = str(answer.get("build_info") or "")
    if reported != f"b{number}-{commit}":
        raise ProofFailed(
            f"the server is build {reported or 'unknown'}, not b{number}-{commit}", where=session.node
        )


def call_api(
    session: Session, api: Api, method: str, path: str, body: Json, *, deadline: float
) -> Mapping[str, Json]:
    """Return a server's JSON answer.

    Raises:
        ProofFailed: No answer in time, another status than 200, or no JSON object.
    """
    arguments: dict[str, Json] = {"method": method, "url": f"{api.base}{path}", "timeout": deadline}
    if body is not None:
        arguments["json"] = body
    if api.key_file:
        arguments["bearer_file"] = api.key_file
    try:
        answer = session.call("http", arguments, deadline=deadline + 10)
    except OperationFailed as error:
        raise ProofFailed(f"{method} {path} was not answered", where=session.node, why=error.why) from error
    if answer["status"] != 200:  # noqa: PLR2004 - HTTP OK
        raise ProofFailed(
            f"{method} {path} was refused",
            where=session.node,
            why=f"{answer['status']}: {answer['text'][:500]}",
        )
    try:
        parsed = json.loads(answer["text"])
    except ValueError as error:
        raise ProofFailed(f"{path} answered no JSON", where=session.node, why=str(error)) from error
    if not isinstance(parsed, dict):
        raise ProofFailed(f"{path} answered no JSON object", where=session.node, why=answer["text"][:200])
    return parsed


def prove_task(
    session: Session, api: Api, ready: Mapping[str, Json], *, model: str, deadline: float
) -> Mapping[str, Json]:
    """Prove that a placement does what it is for.

    Arguments:
        session: Of the head's node.
        api: How the node reaches the server.
        ready: `task`, `prompt`, `expect` and, for embeddings, `dimensions`.
        model: API model id.
        deadline: Seconds one answer may take.

    Returns:
        What is worth keeping: seconds and, for chat, tokens per second.
    """
    begun = time.monotonic()
    match ready["task"]:
        case "chat":
            learned = _prove_chat(session, api, ready, model=model, deadline=deadline)
        case "embedding":
            learned = _prove_embedding(session, api, ready, model=model, deadline=deadline)
        case _:
            learned = _prove_rerank(session, api, model=model, deadline=deadline)
    return {**learned, "seconds": round(time.monotonic() - begun, 3)}


def _prove_chat(
    session: Session, api: Api, ready: Mapping[str, Json], *, model: str, deadline: float
) -> Mapping[str, Json]:
    """Ask a question; where an answer is expected, ask again with more room if it was cut off before it."""
    expect = str(ready.get("expect") or "").casefold()
    for limit in (SHORT_ANSWER, LONG_ANSWER) if expect else (SHORT_ANSWER,):
        body = {
            "model": model,
            "messages": [{"role": "user", "content": ready["prompt"]}],
            "temperature": 0,
            "max_tokens": limit,
        }
        answer = call_api(session, api, "POST", "/v1/chat/completions", body, deadline=deadline)
        choice = (answer.get("choices") or [{}])[0]
        message = choice.get("message") or {}
        said = f"{message.get('reasoning_content') or ''}\n{message.get('content') or ''}".strip()
        if not said:
            raise ProofFailed("the answer is empty", where=session.node)
        if expect in said.casefold():
            timings = answer.get("timings") or {}
            return {"tokens_per_second": timings.get("predicted_per_second"), "answer": said[:200]}
        if choice.get("finish_reason") != "length":
            break
    raise ProofFailed(
        f"the answer does not contain {ready['expect']!r}", where=session.node, why=f"it says: {said[:400]}"
    )


def _prove_embedding(
    session: Session, api: Api, ready: Mapping[str, Json], *, model: str, deadline: float
) -> Mapping[str, Json]:
    body = {"model": model, "input": ready["prompt"]}
    answer = call_api(session, api, "POST", "/v1/embeddings", body, deadline=deadline)
    rows = answer.get("data") or [{}]
    vector = rows[0].get("embedding") or []
    if not vector or not all(isinstance(value, int | float) and math.isfinite(value) for value in vector):
        raise ProofFailed("the embedding is not a list of finite numbers", where=session.node)
    if not any(vector):
        raise ProofFailed("the embedding is all zeros", where=session.node)
    wanted = int(ready.get("dimensions") or 0)
    if wanted and len(vector) != wanted:
        raise ProofFailed(
            f"the embedding has {len(vector)} numbers, the model makes {wanted}", where=session.node
        )
    return {"dimensions": len(vector)}


def _prove_rerank(session: Session, api: Api, *, model: str, deadline: float) -> Mapping[str, Json]:
    body = {"model": model, "query": RERANK_QUERY, "documents": list(RERANK_DOCUMENTS)}
    answer = call_api(session, api, "POST", "/v1/rerank", body, deadline=deadline)
    scores = {int(row["index"]): float(row["relevance_score"]) for row in answer.get("results") or []}
    if len(scores) != len(RERANK_DOCUMENTS) or not all(map(math.isfinite, scores.values())):
        raise ProofFailed("the ranking is not complete", where=session.node, why=json.dumps(answer)[:300])
    if max(scores, key=scores.__getitem__) != RERANK_RELEVANT or len(set(scores.values())) == 1:
        raise ProofFailed(
            "the ranking prefers the document that does not answer", where=session.node, why=str(scores)
        )
    return {"scores": [scores[index] for index in sorted(scores)]}
