"""The watch of a server: whether it serves requests, and whether its model loads."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hetctl.agent import watch_gang
from hetctl.agent.watch_gang import Watch
from tests.agent.watched import ENDED, Ended, Server, look, order

# -- questions -------------------------------------------------------------------------------------------

QUESTIONS = {
    "chat": ("/v1/chat/completions", "messages"),
    "embedding": ("/v1/embeddings", "input"),
    "rerank": ("/v1/rerank", "documents"),
}


@pytest.mark.parametrize("task", QUESTIONS)
def test_a_quiet_server_is_asked_what_fits_its_task(
    server: Server, ended: Ended, tmp_path: Path, task: str
) -> None:
    key = tmp_path / "key"
    key.write_text("sk-first\nsk-second\n")
    watch = Watch(order(server, task=task, quiet=0.2, key_file=str(key)))
    assert look(watch, lambda: bool(server.asked))
    path, field = QUESTIONS[task]
    asked, body, authorization = server.asked[0]
    assert (asked, body["model"], authorization) == (path, "chat", "Bearer sk-first")
    assert field in body
    assert body.get("max_tokens", 1) == 1
    look(watch, seconds=0.1)
    assert len(server.asked) == 1
    assert look(watch, lambda: len(server.asked) > 1), "it is asked again after another while"
    assert ended() == []


def test_a_server_that_hangs_is_ended(
    server: Server, ended: Ended, capsys: pytest.CaptureFixture[str]
) -> None:
    server.hung.set()
    watch = Watch(order(server, quiet=0.1))
    assert look(watch, lambda: bool(server.asked))
    began = time.monotonic()
    server.slots = [{"id": 0, "is_processing": True, "id_task": 8}]
    assert look(watch, lambda: bool(ended()))
    assert time.monotonic() - began >= 0.5
    assert ended() == ENDED
    assert "a request for one token was not answered within" in capsys.readouterr().out


def test_a_server_that_hangs_and_says_nothing_of_its_slots_is_ended(server: Server, ended: Ended) -> None:
    server.hung.set()
    watch = Watch(order(server, quiet=0.1, stall=600.0))
    assert look(watch, lambda: bool(server.asked))
    server.slots = None
    assert look(watch, lambda: bool(ended()))


def test_a_question_that_waits_behind_another_request_proves_nothing(server: Server, ended: Ended) -> None:
    server.hung.set()
    watch = Watch(order(server, quiet=0.1, stall=2.0))
    assert look(watch, lambda: bool(server.asked))
    began, step = time.monotonic(), 0
    while time.monotonic() - began < 1.5:
        step += 1
        server.slots = [{"id": 0, "is_processing": True, "id_task": 8, "n_decoded": step}]
        watch.look()
        time.sleep(0.05)
    assert ended() == []


def test_a_question_beside_another_request_proves_nothing(server: Server, ended: Ended) -> None:
    server.hung.set()
    watch = Watch(order(server, quiet=0.1, stall=2.0))
    assert look(watch, lambda: bool(server.asked))
    server.slots = [{"id": number, "is_processing": True, "id_task": 8} for number in (0, 1)]
    assert not look(watch, lambda: bool(ended()), seconds=1.5)
    assert look(watch, lambda: bool(ended())), "but it is bound to move"


def test_the_first_answer_may_take_longer(
    server: Server, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_gang, "FIRST_QUESTION_SECONDS", 0.1)
    server.slots = [{"id": 0, "is_processing": False}]
    server.hung.set()
    watch = Watch(order(server, first_answer=1.5))
    assert look(watch, lambda: bool(server.asked)), (
        "nobody has asked it anything, so it does not wait to be quiet"
    )
    assert not look(watch, lambda: bool(ended()), seconds=1.0)
    assert look(watch, lambda: bool(ended()))


def test_a_refused_question_is_told_and_ends_nothing(
    server: Server, ended: Ended, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_post", lambda *_: (400, {}))
    watch = Watch(order(server, quiet=0.1))
    assert not look(watch, lambda: bool(ended()), seconds=1)
    assert capsys.readouterr().out == "a request for one token failed: 400\n"


# -- requests that are served ----------------------------------------------------------------------------


def busy(tokens: int = 0) -> list[dict[str, Any]]:
    return [{"id": 0, "is_processing": True, "id_task": 9, "next_token": [{"n_decoded": tokens}]}]


def test_requests_that_move_are_left_alone(server: Server, ended: Ended) -> None:
    watch = Watch(order(server, quiet=0.1))
    for tokens in range(30):
        server.slots = busy(tokens)
        watch.look()
        time.sleep(0.05)
    assert ended() == []
    assert server.asked == []


def test_requests_that_do_not_move_end_the_server(
    server: Server, ended: Ended, capsys: pytest.CaptureFixture[str]
) -> None:
    server.slots = busy()
    assert look(Watch(order(server)), lambda: bool(ended()))
    assert ended() == ENDED
    assert "nothing moved for 1 s while it serves 1 requests" in capsys.readouterr().out


def test_a_request_that_comes_is_seen_by_the_processor_time_it_takes(server: Server, ended: Ended) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        watch = Watch(order(server))
        watch._sight.process = spinning.pid
        watch.look()
        server.slots = busy()
        assert look(watch, lambda: bool(ended()))
        spinning.kill()


def test_a_server_that_tells_nothing_of_its_slots_is_told_once_and_left_alone(
    server: Server, ended: Ended, capsys: pytest.CaptureFixture[str]
) -> None:
    server.slots_status = 501
    watch = Watch(order(server, quiet=0.0))
    assert not look(watch, lambda: bool(ended()), seconds=1)
    assert capsys.readouterr().out.count("/slots answers 501") == 1
    assert server.asked == []


# -- a server that is not ready --------------------------------------------------------------------------


def test_a_model_that_never_loads_ends_the_server(
    server: Server, ended: Ended, capsys: pytest.CaptureFixture[str]
) -> None:
    server.health = 503
    watch = Watch(order(server, load=0.5))
    watch.look()
    assert ended() == []
    assert look(watch, lambda: bool(ended()))
    assert "the model is not loaded after" in capsys.readouterr().out


def test_a_server_that_neither_answers_nor_works_is_ended(
    server: Server, ended: Ended, main_process: subprocess.Popen[bytes]
) -> None:
    server.silent = True
    main_process.send_signal(signal.SIGSTOP)
    assert look(Watch(order(server, load=0.5)), lambda: bool(ended()))
    assert ended() == ENDED


def test_a_server_that_is_too_busy_to_answer_is_left_alone(server: Server, ended: Ended) -> None:
    server.silent = True
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        watch = Watch(order(server, load=0.5))
        watch._sight.process = spinning.pid
        assert not look(watch, lambda: bool(ended()), seconds=2)
        spinning.kill()
