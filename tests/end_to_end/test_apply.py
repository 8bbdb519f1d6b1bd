"""The whole story on real hosts: a manifest, three machines, an answer over RPC, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import openai
import pytest

from tests.end_to_end.workplace import Workplace, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.hosts import Lab
from tests.lab.snapshot import Entry, difference, snapshot

KEY = "sk-lab-5f2c"


@dataclass(frozen=True)
class Story:
    """The lab, the operator, and how the hosts were before."""

    lab: Lab
    workplace: Workplace
    before: dict[str, dict[str, Entry]]


@pytest.fixture(scope="module")
def story(
    lab: LabFactory,
    tmp_path_factory: pytest.TempPathFactory,
    operator_environment: dict[str, str],
    llama_source: Path,
    small_model: Path,
) -> Iterator[Story]:
    hosts = lab("head", "left", "right")
    directory = tmp_path_factory.mktemp("operator")
    workplace = Workplace.beside(hosts, directory, {**operator_environment, "CHAT_KEY": KEY})
    workplace.write(
        chat_manifest(
            name="den",
            head="head",
            workers=["left", "right"],
            addresses={host.name: host.address for host in hosts},
            source=llama_source,
            model=small_model,
        )
    )
    yield Story(hosts, workplace, {host.name: snapshot(host) for host in hosts})


def test_diff_of_a_new_cluster_is_pending(story: Story) -> None:
    outcome = story.workplace.expect(2, "diff")
    assert "server/chat" in outcome.stdout


def test_apply_makes_a_model_answer(story: Story) -> None:
    outcome = story.workplace.apply()
    assert "http://" in outcome.stdout + outcome.stderr


def test_the_openai_client_streams_a_right_answer(story: Story) -> None:
    head = story.lab["head"].address
    client = openai.OpenAI(base_url=f"http://{head}:8080/v1", api_key=KEY)
    stream = client.chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": "Reply with the single word: blue"}],
        temperature=0,
        max_tokens=64,
        stream=True,
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert "blue" in text.lower()


def test_diff_after_apply_is_empty(story: Story) -> None:
    story.workplace.expect(0, "diff")


def test_second_apply_changes_nothing(story: Story) -> None:
    outcome = story.workplace.apply()
    assert "no changes" in (outcome.stdout + outcome.stderr).lower()


def test_destroy_leaves_nothing(story: Story) -> None:
    story.workplace.expect(0, "destroy", "--confirm", "den", seconds=300)
    for host in story.lab:
        assert difference(story.before[host.name], snapshot(host)) == []
