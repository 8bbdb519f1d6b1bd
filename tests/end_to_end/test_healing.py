"""A placement that lost a part serves again by itself: nobody runs hetctl, nobody asks it anything meanwhile.

Each case breaks something, waits until the server was started anew and is ready, and only then asks. The
seconds are those from the moment when everything that was broken is there again. `-s` prints them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.host import Host
from tests.lab.hosts import Lab
from tests.lab.snapshot import difference, snapshot

SERVER = "hetctl:den:chat:server.service"
WATCH = "hetctl:den:chat:watch.service"
WORKER = "hetctl:den:chat:worker:pool.service"
HEAL_SECONDS = 180.0

IMPATIENT = "--quiet 5 --first-answer 15 --answer 15"
"""Arguments that make the watch find a hung server in seconds instead of minutes."""


class Gang:
    """`chat` with its head on one host and a worker on each of two others."""

    def __init__(self, lab: Lab, workplace: Workplace) -> None:
        self.lab = lab
        self.workplace = workplace
        self.head, self.left, self.right = lab["head"], lab["left"], lab["right"]
        self.before = {host.name: snapshot(host) for host in lab}

    def run(self) -> str:
        """Return which run of the server this is; empty while its host is down."""
        if not self.head.up:
            return ""
        shown = self.head.exec(
            ["systemctl", "show", "--property=InvocationID", "--value", SERVER], check=False, timeout=10
        )
        return shown.stdout.strip()

    def ready(self) -> bool:
        """Return whether the server says that its model is loaded."""
        try:
            return httpx.get(f"http://{self.head.address}:8080/health", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def answers(self) -> bool:
        return "blue" in answer(self.head.address, KEY).lower()

    def wait_healed(self, former: str, seconds: float = HEAL_SECONDS) -> float:
        """Wait until another run of the server than `former` is ready, ask it, and return the seconds."""
        began = time.monotonic()
        wait(lambda: self.run() not in ("", former) and self.ready(), self.story, seconds)
        assert self.answers()
        return time.monotonic() - began

    def story(self) -> str:
        """Return what the journals say, for a failure."""
        units = [f"--unit={name}" for name in (SERVER, WATCH, WORKER)]
        argv = ["journalctl", "--quiet", "--lines=60", "--output=short-monotonic", *units]
        return "\n".join(host.exec(argv, check=False).stdout for host in self.lab if host.up)

    def reasons(self) -> str:
        """Return why the watch restarted the server, as its journal has it."""
        argv = ["journalctl", "--quiet", "--output=cat", f"--unit={WATCH}", "--grep=^restarting"]
        return self.head.exec(argv, check=False).stdout


def wait(true: Callable[[], bool], what: str | Callable[[], str], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.2)


@pytest.fixture(scope="module")
def gang(lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path) -> Gang:
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
    made = Gang(hosts, workplace)
    workplace.apply()
    return made


@pytest.fixture
def figure(record_testsuite_property: Callable[[str, object], None]) -> Callable[[str, float], None]:
    """Keep how long something took, in the test report and, with `-s`, on the screen."""

    def keep(case: str, seconds: float) -> None:
        record_testsuite_property(f"healing {case}", f"{seconds:.1f} s")
        print(f"\nhealing {case}: {seconds:.1f} s")  # noqa: T201 - what the figures are read from

    return keep


Figure = Callable[[str, float], None]


def kill_worker(gang: Gang) -> None:
    gang.left.exec(["systemctl", "kill", "--kill-who=main", "--signal=SIGKILL", WORKER])


def cut_power(*hosts: Host) -> None:
    for host in hosts:
        host.lose_power()


def power_on(*hosts: Host) -> None:
    for host in hosts:
        host.boot()


BREAKS: dict[str, Callable[[Gang], None]] = {
    "a worker is killed": kill_worker,
    "a worker's host loses power": lambda gang: cut_power(gang.left),
    "the head's host loses power": lambda gang: cut_power(gang.head),
    "a worker's host, then the head's": lambda gang: cut_power(gang.left, gang.head),
    "all hosts lose power": lambda gang: cut_power(gang.head, gang.left, gang.right),
}
BACK: dict[str, Callable[[Gang], None]] = {
    "a worker's host loses power": lambda gang: power_on(gang.left),
    "the head's host loses power": lambda gang: power_on(gang.head),
    "a worker's host, then the head's": lambda gang: power_on(gang.left, gang.head),
    "all hosts lose power": lambda gang: power_on(gang.right, gang.left, gang.head),
}


@pytest.mark.parametrize("case", BREAKS)
def test_it_serves_again_by_itself(gang: Gang, case: str, figure: Figure) -> None:
    former = gang.run()
    BREAKS[case](gang)
    if case in BACK:
        BACK[case](gang)
    figure(case, gang.wait_healed(former))
    gang.workplace.expect(0, "diff")


@pytest.mark.parametrize("first", ["head", "left"])
def test_whichever_host_is_back_first(gang: Gang, first: str, figure: Figure) -> None:
    former = gang.run()
    hosts = [gang.head, gang.left] if first == "head" else [gang.left, gang.head]
    cut_power(*reversed(hosts))
    hosts[0].boot()
    wait(hosts[0].answers, f"{first} is up", 60)
    if first == "head":
        wait(lambda: "waiting" in unit(gang.head, SERVER), "the head waits for its worker", 60)
    hosts[1].boot()
    figure(f"both hosts lose power, {first} is back first", gang.wait_healed(former))
    gang.workplace.expect(0, "diff")


def unit(host: Host, name: str) -> str:
    """Return a unit's state, `waiting` when a command before its start runs."""
    shown = host.exec(["systemctl", "show", "--property=SubState", "--value", name], check=False).stdout
    return "waiting" if shown.strip() == "start-pre" else shown.strip()


def test_a_worker_that_stays_away_is_waited_for(gang: Gang, figure: Figure) -> None:
    former = gang.run()
    gang.left.lose_power()
    began = time.monotonic()
    wait(lambda: unit(gang.head, SERVER) == "waiting", "the server waits for the worker", 120)
    figure("a worker's host is gone, until the server waits for it", time.monotonic() - began)
    outcome = gang.workplace.run("status")
    assert outcome.code != 0
    assert "starting" in outcome.stdout
    gang.left.boot()
    figure("a worker's host comes back later", gang.wait_healed(former))
    gang.workplace.expect(0, "diff")


@contextmanager
def talking(gang: Gang) -> Iterator[list[Exception]]:
    """Have the placement generate in the background until the block ends; yields what went wrong."""
    failures: list[Exception] = []
    begun = threading.Event()

    def talk() -> None:
        client = openai.OpenAI(
            base_url=f"http://{gang.head.address}:8080/v1", api_key=KEY, max_retries=0, timeout=300
        )
        try:
            with client.chat.completions.create(
                model="chat",
                messages=[{"role": "user", "content": "Count from one to one thousand."}],
                max_tokens=1500,
                stream=True,
                extra_body={"ignore_eos": True},
            ) as stream:
                for _ in stream:
                    begun.set()
        except (openai.OpenAIError, httpx.HTTPError) as error:
            failures.append(error)

    thread = threading.Thread(target=talk, daemon=True)
    thread.start()
    assert begun.wait(60)
    yield failures
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("what", ["worker", "host"])
def test_it_heals_while_it_answers(gang: Gang, what: str, figure: Figure) -> None:
    former = gang.run()
    with talking(gang):
        if what == "worker":
            kill_worker(gang)
        else:
            gang.left.lose_power()
            gang.left.boot()
        seconds = gang.wait_healed(former)
    figure(f"a {what if what == 'worker' else 'worker host'} is lost while it answers", seconds)
    gang.workplace.expect(0, "diff")


@contextmanager
def impatient(gang: Gang) -> Iterator[None]:
    """Make the watch find a hung server in seconds."""
    text = gang.head.exec(["systemctl", "cat", WATCH]).stdout
    [command] = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    folder = f"/run/systemd/system/{WATCH}.d"
    drop_in = f"[Service]\nExecStart=\n{command} {IMPATIENT}\n"
    gang.head.exec(["mkdir", "-p", folder])
    gang.head.exec(["tee", f"{folder}/impatient.conf"], text=drop_in)
    gang.head.exec(["systemctl", "daemon-reload"])
    gang.head.exec(["systemctl", "restart", WATCH])
    try:
        yield
    finally:
        gang.head.exec(["rm", "-r", folder])
        gang.head.exec(["systemctl", "daemon-reload"])
        gang.head.exec(["systemctl", "restart", WATCH])


def test_a_frozen_worker_is_found_and_waited_for(gang: Gang, figure: Figure) -> None:
    with impatient(gang):
        wait(lambda: unit(gang.head, WATCH) == "running", "the watch runs", 10)
        former = gang.run()
        gang.left.exec(["systemctl", "kill", "--signal=SIGSTOP", WORKER])
        began = time.monotonic()
        wait(lambda: unit(gang.head, SERVER) == "waiting", gang.story, 90)
        figure(
            "a worker is frozen, until the server was ended (--quiet 5 --answer 15)", time.monotonic() - began
        )
        assert "was not answered within 15 s" in gang.reasons()
        gang.workplace.expect(10, "status")
        gang.left.exec(["systemctl", "kill", "--signal=SIGCONT", WORKER])
        figure("a frozen worker goes on", gang.wait_healed(former))
    gang.workplace.expect(0, "diff")


def test_a_frozen_host_is_found_and_waited_for(gang: Gang, figure: Figure) -> None:
    with impatient(gang):
        former = gang.run()
        gang.right.freeze()
        try:
            began = time.monotonic()
            wait(lambda: unit(gang.head, SERVER) == "waiting", gang.story, 90)
            figure("a worker's host is frozen, until the server was ended", time.monotonic() - began)
            assert gang.workplace.run("status").code in (5, 10)
        finally:
            gang.right.thaw()
        figure("a frozen host goes on", gang.wait_healed(former))
    gang.workplace.expect(0, "diff")


def test_status_says_why_the_watch_restarted_the_server(gang: Gang) -> None:
    former = gang.run()
    gang.left.lose_power()
    gang.left.start()
    gang.wait_healed(former)
    told = gang.workplace.expect(0, "status").stdout
    assert "restarted by its watch" in told


def test_a_server_that_was_stopped_stays_stopped(gang: Gang) -> None:
    gang.head.exec(["systemctl", "stop", SERVER])
    assert unit(gang.head, WATCH) == "dead"
    kill_worker(gang)
    outcome = gang.workplace.expect(2, "diff")
    assert f"{SERVER} is inactive" in outcome.stdout
    assert unit(gang.head, SERVER) == "dead"
    gang.workplace.apply()
    assert gang.answers()


@pytest.mark.parametrize(
    ("what", "argv"),
    [
        ("is inactive", ["systemctl", "stop", WATCH]),
        (
            "is masked",
            [
                "sh",
                "-c",
                f"systemctl stop '{WATCH}'; rm '/etc/systemd/system/{WATCH}'; systemctl mask '{WATCH}'",
            ],
        ),
        ("was changed", ["sh", "-c", f"echo >>'/etc/systemd/system/{WATCH}'; systemctl daemon-reload"]),
    ],
)
def test_a_broken_watch_is_mended_without_a_restart(gang: Gang, what: str, argv: list[str]) -> None:
    former = gang.run()
    gang.head.exec(argv)
    outcome = gang.workplace.expect(2, "diff")
    assert f"{WATCH} {what}" in outcome.stdout
    gang.workplace.apply()
    gang.workplace.expect(0, "diff")
    assert gang.run() == former
    assert unit(gang.head, WATCH) == "running"


def test_destroy_leaves_nothing(gang: Gang) -> None:
    gang.workplace.expect(0, "destroy", "--confirm", "den", seconds=300)
    for host in gang.lab:
        assert difference(gang.before[host.name], snapshot(host)) == []
