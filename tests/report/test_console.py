from __future__ import annotations

import io
import threading

from hetctl.report.console import Console, command_line


def console(typed: str = "") -> Console:
    return Console(io.StringIO(typed), io.StringIO(), io.StringIO(), {})


def err(it: Console) -> str:
    assert isinstance(it.stderr, io.StringIO)
    return it.stderr.getvalue()


def test_silence_is_explained() -> None:
    it = console()
    with it.patience("reading ...", after=0.01):
        it._waiting.join(20)
    assert err(it) == "reading ...\n"


def test_no_explanation_once_something_was_said() -> None:
    it = console()
    with it.patience("reading ...", after=0.2):
        it.result("a plan\n")
        it._waiting.join(20)
    assert err(it) == ""


def test_questions_from_several_threads_are_asked_one_after_the_other() -> None:
    it = console("yes\n" * 8)
    answers: list[bool] = []
    threads = [threading.Thread(target=lambda: answers.append(it.confirm("Right?"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == [True] * 8
    assert it.confirm("Right?") is False


def test_a_command_can_be_pasted() -> None:
    assert command_line("hetctl", "apply", "", "my cluster.yaml") == "hetctl apply 'my cluster.yaml'"
