"""An answer comes in pieces, or it is said why none does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from hetctl.errors import ExitCode, HetctlError
from hetctl.resources.asking import ask
from hetctl.resources.base import Mark
from hetctl.resources.view import Question
from hetctl.transport.fake import FakeAnswer, FakeSession

SPEC: Mapping[str, Any] = {
    "placement": "chat",
    "alias": "gemma",
    "local_url": "http://127.0.0.1:8080",
    "secret_files": {},
    "settings": {"task": "chat"},
}


def mark(**changes: Any) -> Mark:
    return Mark("den", "server/chat", "server", "atlas", {**SPEC, **changes}, "", 1)


def chunk(text: str, *, finish: str | None = None, **more: Any) -> Mapping[str, Any]:
    body = {"choices": [{"delta": {"content": text}, "finish_reason": finish}], "model": "gemma", **more}
    return {"data": json.dumps(body)}


def server(*events: Mapping[str, Any], status: int = 200, text: str = "") -> FakeSession:
    answer = FakeAnswer({"status": status, "headers": {}, "text": text}, events=tuple(events))
    return FakeSession("atlas", {"http": answer})


def test_pieces_are_told_as_they_come_and_counted() -> None:
    usage = {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    session = server(chunk("the red"), chunk(" fox", finish="stop", **usage), {"data": "[DONE]"})
    told: list[str] = []
    answer = ask(session, mark(), "chat", Question("Who?"), told.append)
    assert told == ["the red", " fox"]
    assert (answer.text, answer.model, answer.prompt_tokens, answer.completion_tokens, answer.cut) == (
        "the red fox", "gemma", 5, 2, False,
    )  # fmt: skip


def test_an_answer_that_was_cut_off_says_so() -> None:
    session = server(chunk("the red", finish="length"))
    assert ask(session, mark(), "chat", Question("Who?", max_tokens=2), lambda _: None).cut


def failure(session: FakeSession, it: Mark | None, question: Question | None = None) -> HetctlError:
    with pytest.raises(HetctlError) as raised:
        ask(session, it, "chat", question or Question("Who?"), lambda _: None)
    return raised.value


def test_silence_is_given_up_on() -> None:
    error = failure(server(chunk("never")), mark(), Question("Who?", patience=-1))
    assert error.exit_code is ExitCode.UNHEALTHY
    assert "hetctl status" in error.fix


def test_a_server_that_refuses() -> None:
    error = failure(server(status=503, text="loading"), mark())
    assert error.exit_code is ExitCode.UNHEALTHY
    assert "503: loading" in error.why


@pytest.mark.parametrize(
    ("it", "code", "told"),
    [
        (None, ExitCode.UNHEALTHY, "not there yet"),
        (mark(state="stopped"), ExitCode.UNHEALTHY, "is stopped"),
        (mark(settings={"task": "embedding"}), ExitCode.USAGE, "serves embedding"),
    ],
)
def test_nobody_is_asked_who_cannot_answer(it: Mark | None, code: ExitCode, told: str) -> None:
    session = server()
    error = failure(session, it)
    assert error.exit_code is code
    assert told in error.what
    assert session.calls == []
