"""The project speaks of itself alone: nothing in it needs the place or the machine where it was written."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.sources import ROOT, git, project_files

# Each word is put together from two pieces, so that this file does not contain what it looks for.
REGISTRIES = tuple(
    """
    py|pi.org python|hosted.org npm|js.org crates|.io proxy.go|lang.org deb.deb|ian.org archive.ub|untu.com
    """.split()
)
AUTHORS = ("cla|ude", "anthro|pic", "co|pilot", "chat|gpt", "sub|agent", "sub|-agent")
UNFINISHED = ("TO|DO", "FIX|ME", "XX|X", "HA|CK")


def any_of(words: tuple[str, ...]) -> str:
    """Return a pattern for any of some words that are written in two pieces."""
    return rf"\b({'|'.join(re.escape(word.replace('|', '')) for word in words)})\b"


FORBIDDEN = {
    "a folder beside the checkout": rf"(\.\./|\b){'share'}d/(facts|data|lab|cases|hooks|design|style)\b",
    "a folder of the machine it was written on": rf"(?<![\w.~$}}])/({'wor'}k|var/tmp/({'bo'}ot|{'bri'}ef))\b",
    "the host of a package registry": any_of(REGISTRIES),
    "a maker of language models as an author": any_of(AUTHORS),
    "unfinished work": any_of(UNFINISHED),
    "a merge left open": r"^(<{7}|>{7}) ",
}
CASE_MATTERS = {"unfinished work"}
NOT_OURS = {"LICENSE"}


def pattern(name: str) -> re.Pattern[str]:
    return re.compile(FORBIDDEN[name], re.MULTILINE | (0 if name in CASE_MATTERS else re.IGNORECASE))


def found(name: str, text: str) -> list[str]:
    """Return the lines in which a pattern occurs."""
    return [line for line in text.splitlines() if pattern(name).search(line)]


@cache
def text_of(path: Path) -> str:
    """Return a file's text; what is not text has no words."""
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode(errors="replace")


@pytest.mark.parametrize("name", FORBIDDEN)
def test_no_file_says_what_does_not_belong_here(name: str) -> None:
    texts = {
        str(path.relative_to(ROOT)): text_of(path) for path in project_files() if path.name not in NOT_OURS
    }
    assert {path: lines for path, text in texts.items() if (lines := found(name, f"{path}\n{text}"))} == {}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_no_commit_message_says_it_either(name: str) -> None:
    assert found(name, git("log", "--format=%B")) == []


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("a folder beside the checkout", "see ../{}red/facts", "a {}red library"),
        ("a folder of the machine it was written on", "cd /{}k/main", "{}k/main"),
        ("the host of a package registry", "https://{}i.org/simple", "the {}i package"),
        ("a maker of language models as an author", "written by {}ude", "{}uses"),
        ("unfinished work", "# {}DO: later", "a {}do list"),
        ("a merge left open", "<<<<<<{} HEAD", "a <<<<<<{} b"),
    ],
)
def test_the_check_sees_what_it_should(name: str, bad: str, good: str) -> None:
    pieces = {"a folder beside the checkout": "sha", "a folder of the machine it was written on": "wor",
              "the host of a package registry": "pyp", "a maker of language models as an author": "cla",
              "unfinished work": "TO", "a merge left open": "<"}  # fmt: skip
    assert found(name, bad.format(pieces[name]))
    assert not found(name, good.format(pieces[name]))
