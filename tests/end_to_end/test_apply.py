"""The whole story on real hosts: a manifest, three machines, an answer over RPC, and nothing left behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import openai
import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.host import Host
from tests.lab.hosts import Lab
from tests.lab.snapshot import Entry, difference, snapshot

CONNECT = (
    "import socket, sys\n"
    "try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()\n"
    "except OSError as error: print(type(error).__name__)\n"
    "else: print('connected')\n"
)


@dataclass(frozen=True)
class Story:
    """The lab, the operator, and how the hosts were before."""

    lab: Lab
    workplace: Workplace
    before: dict[str, dict[str, Entry]]


@pytest.fixture(scope="module")
def story(
    lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path
) -> Story:
    hosts = lab("head", "left", "right")
    workplace = workplace_beside(hosts)
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
    return Story(hosts, workplace, {host.name: snapshot(host) for host in hosts})


def reaches(host: Host, address: str, port: int) -> str:
    """Return what comes of a TCP connection from a host."""
    return host.exec(["python3", "-c", CONNECT, address, str(port)]).stdout.strip()


def logins_of(host: Host) -> int:
    """Return how often somebody logged in to a host."""
    return host.exec(["journalctl", "--unit=ssh", "--output=cat"]).stdout.count("Accepted publickey")


def test_a_new_cluster_is_all_pending_and_diff_touches_nothing(story: Story) -> None:
    outcome = story.workplace.expect(2, "diff")
    assert "+ server/chat" in outcome.stdout
    for host in story.lab:
        assert difference(story.before[host.name], snapshot(host)) == []


def test_apply_needs_consent(story: Story) -> None:
    story.workplace.expect(64, "apply")


def test_apply_brings_up_a_model_over_three_hosts(story: Story) -> None:
    outcome = story.workplace.apply()
    head = story.lab["head"].address
    assert f"http://{head}:8080/v1" in outcome.stdout + outcome.stderr
    assert KEY not in outcome.stdout + outcome.stderr


def test_the_openai_client_streams_a_right_answer(story: Story) -> None:
    assert "blue" in answer(story.lab["head"].address, KEY).lower()


def test_a_wrong_key_is_refused(story: Story) -> None:
    client = openai.OpenAI(base_url=f"http://{story.lab['head'].address}:8080/v1", api_key="sk-wrong")
    with pytest.raises(openai.AuthenticationError):
        client.models.list()


def test_the_key_lies_in_no_readable_place(story: Story) -> None:
    for host in story.lab:
        found = host.exec(["grep", "-rl", "--", KEY, "/etc", "/var/lib/hetctl"], check=False).stdout.split()
        modes = [host.exec(["stat", "-c", "%a %U", path]).stdout.strip() for path in found]
        assert set(modes) <= {"600 root"}, found
        commands = host.exec(["sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n'"])
        assert KEY not in commands.stdout


def test_only_the_head_reaches_a_worker(story: Story) -> None:
    left, right = story.lab["left"], story.lab["right"]
    assert reaches(right, left.address, 20052) == "TimeoutError"
    assert reaches(left, right.address, 20052) == "TimeoutError"
    # another port of the same host answers, so it is the filter and not the network
    assert reaches(right, left.address, 22) == "connected"


def test_diff_after_apply_is_empty(story: Story) -> None:
    story.workplace.expect(0, "diff")


def test_a_second_apply_changes_nothing(story: Story) -> None:
    unit = "hetctl:den:chat:server.service"
    show = ["systemctl", "show", "--property=InvocationID,MainPID", unit]
    before = story.lab["head"].exec(show).stdout
    logins = {host.name: logins_of(host) for host in story.lab}
    outcome = story.workplace.apply()
    assert "no changes" in (outcome.stdout + outcome.stderr).lower()
    assert story.lab["head"].exec(show).stdout == before
    assert {host.name: logins_of(host) - logins[host.name] for host in story.lab} == dict.fromkeys(logins, 1)


def test_status_is_ready_and_says_where(story: Story) -> None:
    outcome = story.workplace.expect(0, "status")
    assert f"http://{story.lab['head'].address}:8080/v1" in outcome.stdout


def test_ask_and_logs(story: Story) -> None:
    said = story.workplace.expect(0, "ask", "--max-tokens", "16", "Reply with the single word: blue")
    assert said.stdout.strip()
    logs = story.workplace.expect(0, "logs", "chat", "-n", "200")
    assert "listening" in logs.stdout


def test_a_flushed_packet_filter_is_found_and_mended_without_a_restart(story: Story) -> None:
    left = story.lab["left"]
    pid = ["systemctl", "show", "--property=MainPID", "hetctl:den:chat:worker:pool.service"]
    before = left.exec(pid).stdout
    left.exec(["nft", "flush", "ruleset"])
    outcome = story.workplace.expect(2, "diff")
    assert "firewall/chat" in outcome.stdout
    story.workplace.apply()
    assert reaches(story.lab["right"], left.address, 20052) == "TimeoutError"
    assert left.exec(pid).stdout == before
    story.workplace.expect(0, "diff")


def test_destroy_needs_the_name(story: Story) -> None:
    outcome = story.workplace.run("destroy", "--confirm", "lair")
    assert outcome.code != 0
    story.workplace.expect(0, "diff")


def test_destroy_leaves_nothing(story: Story) -> None:
    story.workplace.expect(0, "destroy", "--confirm", "den", seconds=300)
    for host in story.lab:
        assert difference(story.before[host.name], snapshot(host)) == []
