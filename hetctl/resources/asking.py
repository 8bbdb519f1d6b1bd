"""Putting a question to a placement from its head's node, and noticing when no answer comes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from hetctl.errors import Interrupted, Unhealthy, UsageError
from hetctl.resources.activity import runs
from hetctl.resources.base import Mark
from hetctl.resources.gang import api_of
from hetctl.resources.view import Answer, Question
from hetctl.transport.base import Json, Session

LONGEST_ANSWER = 24 * 3600.0
"""Seconds an answer may take in all, as long as it goes on."""

HTTP_OK = 200


def ask(
    session: Session, mark: Mark | None, placement: str, question: Question, emit: Callable[[str], None]
) -> Answer:
    """Put a question to a running server and emit the answer as it comes.

    Arguments:
        session: Of the server's node.
        mark: Of the server; None when it was never applied.
        placement: Its placement.
        question: What to ask, and how long to wait.
        emit: Receives pieces of the answer.

    Raises:
        UsageError: The placement does not talk.
        Unhealthy: It is not there, is stopped, refuses, or says nothing for longer than the question allows.
    """
    spec = _spec(session, mark, placement)
    stream = _Stream(emit, question.patience)
    api = api_of(spec)
    arguments = {
        "method": "POST",
        "url": f"{api.base}/v1/chat/completions",
        "json": {
            "model": spec["alias"],
            "messages": [{"role": "user", "content": question.prompt}],
            "max_tokens": question.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        "stream": True,
        "timeout": LONGEST_ANSWER,
        **({"bearer_file": api.key_file} if api.key_file else {}),
    }
    begun = time.monotonic()
    try:
        answer = session.call(
            "http", arguments, deadline=LONGEST_ANSWER, on_event=stream.receive, stop=stream.silent
        )
    except Interrupted:
        raise Unhealthy(
            f"placement {placement} says nothing for {question.patience:.0f} s",
            where=session.node,
            why="it may be reading a long prompt, or has lost a worker",
            fix=f"hetctl status; hetctl logs {placement}; or wait longer: --timeout 10m",
        ) from None
    if answer["status"] != HTTP_OK:
        raise Unhealthy(
            f"placement {placement} refused the question",
            where=session.node,
            why=f"{answer['status']}: {answer['text'][:400]}",
            fix=f"hetctl logs {placement}",
        )
    return stream.answer(time.monotonic() - begun)


def _spec(session: Session, mark: Mark | None, placement: str) -> Mapping[str, Json]:
    if mark is None:
        raise Unhealthy(f"placement {placement} is not there yet", where=session.node, fix="hetctl apply")
    task = mark.spec["settings"]["task"]
    if task != "chat":
        raise UsageError(
            f"placement {placement} serves {task}, it does not talk",
            where=session.node,
            fix="ask a placement with `task: chat`",
        )
    if not runs(mark.spec):
        raise Unhealthy(
            f"placement {placement} is stopped", where=session.node, fix=f"hetctl start {placement}"
        )
    return mark.spec


class _Stream:
    """The pieces of an answer as they come.

    Arguments:
        emit: Receives the text.
        patience: Longest silence, in seconds.
    """

    def __init__(self, emit: Callable[[str], None], patience: float) -> None:
        self._emit = emit
        self._patience = patience
        self._heard = time.monotonic()
        self._pieces: list[str] = []
        self._last: dict[str, Any] = {}
        self._cut = False

    def silent(self) -> bool:
        """Tell whether nothing came for too long."""
        return time.monotonic() - self._heard > self._patience

    def receive(self, event: Mapping[str, Json]) -> None:
        """Take an event of the stream."""
        self._heard = time.monotonic()
        data = str(event.get("data") or "")
        if not data or data == "[DONE]":
            return
        chunk = json.loads(data)
        self._last.update({key: chunk[key] for key in ("model", "usage") if chunk.get(key)})
        for choice in chunk.get("choices") or []:
            self._cut = self._cut or choice.get("finish_reason") == "length"
            delta = choice.get("delta") or {}
            if text := delta.get("content") or delta.get("reasoning_content"):
                self._pieces.append(text)
                self._emit(text)

    def answer(self, seconds: float) -> Answer:
        """Return what came in all."""
        usage = self._last.get("usage") or {}
        return Answer(
            text="".join(self._pieces),
            model=str(self._last.get("model") or ""),
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
            seconds=seconds,
            cut=self._cut,
        )
