from __future__ import annotations

import json
import shlex

import pytest

from hetctl.engine.outcome import Result, RunReport, StepOutcome
from hetctl.errors import OperationFailed
from hetctl.report.outcome import curl, endpoints_text, outcome_text
from hetctl.report.terminal import PLAIN, Terminal
from hetctl.resources.base import Step
from hetctl.resources.view import Endpoint


def step(name: str, node: str = "atlas") -> Step:
    return Step(name=name, address=name, node=node, run=lambda _: None)


REPORT = RunReport(
    (
        StepOutcome(step("copy build/main"), Result.DONE, 12.34),
        StepOutcome(step("start worker/chat", "pascal"), Result.FAILED, 3.0, error=OperationFailed("it does not start", where="pascal", why="exit status 1")),  # noqa: E501 - a table
        StepOutcome(step("start server/chat"), Result.SKIPPED, because="start worker/chat failed"),
        StepOutcome(step("copy model/gemma", "bench"), Result.STOPPED, 70.0),
        StepOutcome(step("start server/embed", "bench"), Result.NOT_REACHED),
        StepOutcome(step("download", ""), Result.DONE, 0.5),
    ),
    interrupted=True,
)  # fmt: skip

TEXT = """\
atlas
  done     copy build/main    12 s
  skipped  start server/chat  because start worker/chat failed
pascal
  failed  start worker/chat  3.0 s
bench
  stopped      copy model/gemma    70 s
  not reached  start server/embed
this machine
  done  download  0.5 s

start worker/chat on pascal
error: it does not start
  where: pascal
  why:   exit status 1
2 done, 1 failed, 1 stopped, 1 skipped, 1 not reached.   Next: hetctl apply cluster.yaml
"""


def test_every_step_is_named_with_what_became_of_it() -> None:
    assert outcome_text(REPORT, PLAIN, next_command="hetctl apply cluster.yaml") == TEXT


def test_failures_are_red() -> None:
    assert "\x1b[31mfailed  start worker/chat" in outcome_text(REPORT, Terminal(colour=True))


def test_nothing_to_report() -> None:
    assert outcome_text(RunReport(()), PLAIN) == "0 done, 0 failed, 0 skipped, 0 not reached.\n"


CHAT = Endpoint("chat", "http://192.168.10.5:8080/v1", "chat", "env CHAT_KEY")


def test_where_it_answers() -> None:
    assert endpoints_text([CHAT], PLAIN) == (
        "chat  http://192.168.10.5:8080/v1  model chat  key env CHAT_KEY\n"
        "  curl -sS http://192.168.10.5:8080/v1/chat/completions "
        "-H \"Authorization: Bearer $CHAT_KEY\" -H 'Content-Type: application/json' "
        '-d \'{"model": "chat", "messages": [{"role": "user", "content": "Hello"}]}\'\n'
    )


@pytest.mark.parametrize(
    ("task", "path", "key"),
    [
        ("chat", "/chat/completions", "messages"),
        ("completions", "/completions", "prompt"),
        ("embedding", "/embeddings", "input"),
        ("rerank", "/rerank", "documents"),
    ],
)
def test_the_example_fits_the_task(task: str, path: str, key: str) -> None:
    words = shlex.split(curl(Endpoint("x", "http://h:1/v1/", "it's", task=task)))
    assert words[2] == f"http://h:1/v1{path}"
    body = json.loads(words[-1])
    assert key in body
    assert body["model"] == "it's"
    assert "Authorization" not in " ".join(words)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("file /etc/my key", "$(cat '/etc/my key')"),
        ("command pass show chat", "$(pass show chat)"),
        ("vault x", "$KEY"),
    ],
)
def test_a_key_stays_a_reference(reference: str, expected: str) -> None:
    assert f"Bearer {expected}" in curl(Endpoint("x", "https://h/v1", "x", reference, certificate="/ca.pem"))
    assert "--cacert /ca.pem" in curl(Endpoint("x", "https://h/v1", "x", reference, certificate="/ca.pem"))
