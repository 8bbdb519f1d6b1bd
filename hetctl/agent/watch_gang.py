"""Notices when a server cannot work any more and ends it; systemd starts it anew. One self-contained file.

It runs on the head's node beside llama-server, which notices nothing by itself: an idle one keeps dead
connections, a hung one answers `/health` with 200. Every few seconds it looks, and ends the server when

- a connection to a worker that was there is gone, or a worker's machine acknowledges nothing any more;
- nothing moved in any slot for too long while requests are served;
- a request for one token, made when nobody has asked for anything for a while, is not answered in time;
- the model is not loaded in time, or the process neither answers nor uses any processor time.

    python3 -I watch_gang.py --unit UNIT --url http://10.0.0.5:8080 --model chat --worker 10.0.0.6:20052

It ends the main process alone, with SIGKILL: a server that was stopped on purpose stays stopped, and systemd
counts the restart. It never connects to a worker: a worker serves one connection after the other, so each
try would stay in its queue of two until the head is gone. Instead it has the kernel probe the connections
there are (keep_alive.py).
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

ESTABLISHED, CLOSE_WAIT, RETRANSMITTING = "01", "08", 1
MOST_RETRANSMISSIONS = 8
"""Each waits twice as long as the one before, from 0.2 s: no sign of life for about 50 s."""

SECOND_LOOK_SECONDS = 1.0
FIRST_QUESTION_SECONDS = 30.0
"""When nobody has asked a server anything since it started, it is asked after this time."""

HTTP_SECONDS = 5.0
LONGEST_ANSWER = 4 << 20
OK = 200

QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}),
    "embedding": ("/v1/embeddings", {"input": "Hi"}),
    "rerank": ("/v1/rerank", {"query": "Hi", "documents": ["Hello"]}),
}
"""For each task the smallest request that uses every device."""


@dataclass(frozen=True)
class Order:
    """What to watch and how patiently; all times in seconds.

    Arguments:
        unit: Of the server.
        url: Where it answers, such as `http://10.0.0.5:8080`.
        model: API model id.
        task: One of QUESTIONS.
        workers: Endpoints such as `10.0.0.6:20052`.
        key_file: File whose first line opens the API; empty for none.
        keep_alive: The script that has the kernel probe connections; empty for none.
        may_sleep: The server frees its model when idle, so it is asked nothing by itself.
        every: Between two looks.
        quiet: Without any request, before it is asked something.
        answer: The answer to that may take.
        first_answer: The same as long as it has answered nobody since it started: kernels of some backends
            are compiled on first use.
        stall: Without progress, before requests that are being served count as hung.
        load: Loading the model may take.
    """

    unit: str
    url: str
    model: str
    task: str = "chat"
    workers: tuple[str, ...] = ()
    key_file: str = ""
    keep_alive: str = ""
    may_sleep: bool = False
    every: float = 2.0
    quiet: float = 300.0
    answer: float = 60.0
    first_answer: float = 300.0
    stall: float = 300.0
    load: float = 600.0


class Health(Enum):
    """What `/health` says."""

    READY = "ready"
    LOADING = "loading"
    SILENT = "silent"


def say(message: str) -> None:
    """Write one line for the journal."""
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()


def kernel_form(endpoint: str) -> list[str]:
    """Return how /proc/net/tcp and tcp6 write `10.0.0.6:20052`: 32-bit words in host order, in hex."""
    address, _, port = endpoint.rpartition(":")
    address = address.strip("[]")
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    forms = [packed] if ":" in address else [packed, bytes(10) + b"\xff\xff" + packed]
    words = [struct.unpack(f"={len(form) // 4}I", form) for form in forms]
    return ["".join(f"{word:08X}" for word in form) + f":{int(port):04X}" for form in words]


@dataclass(frozen=True)
class Link:
    """One connection of this machine.

    Arguments:
        inode: Of its socket.
        open: False when the other end has closed it.
        retransmissions: How often its last data was sent again.
    """

    inode: str
    open: bool
    retransmissions: int


def links(remote: list[str], proc: str = "/proc") -> list[Link]:
    """Return the connections to an endpoint, given as the kernel writes it, that this end has not closed."""
    found = []
    for name in ("tcp", "tcp6"):
        try:
            with open(f"{proc}/net/{name}", encoding="ascii") as file:
                rows = [line.split() for line in file.read().splitlines()[1:]]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for row in rows:
            if row[2] in remote and row[3] in (ESTABLISHED, CLOSE_WAIT):
                timer = int(row[5].partition(":")[0], 16)
                again = int(row[6], 16) if timer == RETRANSMITTING else 0
                found.append(Link(row[9], row[3] == ESTABLISHED, again))
    return found


def processor_time(process: int) -> int | None:
    """Return the clock ticks a process has used, None when it is gone."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[11]) + int(fields[12])


class Api:
    """The HTTP API of the server."""

    def __init__(self, order: Order) -> None:
        self._order = order
        parts = urllib.parse.urlsplit(order.url)
        self._host, self._port = parts.hostname or "", parts.port or 80

    def request(self, path: str, body: Any = None, *, seconds: float = 0.0) -> tuple[int, str]:
        """Return status and text of an answer, given within `seconds` or else HTTP_SECONDS.

        Raises:
            OSError: There was none; TimeoutError when it was not given in time.
        """
        headers = {"Content-Type": "application/json"}
        if self._order.key_file:
            with open(self._order.key_file, encoding="utf-8") as file:
                headers["Authorization"] = f"Bearer {file.readline().strip()}"
        connection = http.client.HTTPConnection(self._host, self._port, timeout=seconds or HTTP_SECONDS)
        try:
            connection.request(
                "GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers
            )
            answer = connection.getresponse()
            return answer.status, answer.read(LONGEST_ANSWER).decode(errors="replace")
        except http.client.HTTPException as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def health(self) -> Health:
        """Return what the server says of itself."""
        try:
            status, _ = self.request("/health")
        except TimeoutError:
            return Health.SILENT
        except OSError:
            return Health.LOADING
        return Health.READY if status == OK else Health.LOADING

    def asleep(self) -> bool:
        """Tell whether the server has freed its model until somebody asks for it."""
        try:
            status, text = self.request("/props")
            return status == OK and json.loads(text).get("is_sleeping") is True
        except (OSError, ValueError):
            return False


class Question:
    """A request for one token, on its way."""

    def __init__(self, api: Api, order: Order, seconds: float) -> None:
        self.begun = time.monotonic()
        self.seconds = seconds
        self.status = 0
        self.failure = ""
        self._timed_out = False
        path, body = QUESTIONS[order.task]
        self._thread = threading.Thread(
            target=self._ask, args=(api, path, {"model": order.model, **body}), daemon=True
        )
        self._thread.start()

    def _ask(self, api: Api, path: str, body: Any) -> None:
        try:
            self.status, _ = api.request(path, body, seconds=self.seconds)
        except TimeoutError:
            self._timed_out = True
        except OSError as error:
            self.failure = str(error) or type(error).__name__

    @property
    def over(self) -> bool:
        """True once it was answered or refused, or the connection broke."""
        return not self._thread.is_alive() and not self._timed_out

    @property
    def late(self) -> bool:
        """True when the answer should have been there."""
        return time.monotonic() - self.begun >= self.seconds


@dataclass
class Sight:
    """What was seen of the server's present run.

    Arguments:
        process: Its main process; 0 when it is not known yet.
        workers: Endpoints there was a connection to once the model was loaded.
        probed: Inodes of connections that the kernel probes.
        slots: The last answer of `/slots`.
        moved: When that changed last, or a request was answered.
        idle: Whether no slot was processing then.
        used: The processor time it had used then.
        answered: Whether it has done its task since it started.
        question: The request that is on its way.
        unready: Since when it is not ready, and the processor time it had used then.
    """

    process: int = 0
    workers: set[str] = field(default_factory=set)
    probed: set[str] = field(default_factory=set)
    slots: str = ""
    moved: float = field(default_factory=time.monotonic)
    idle: bool = False
    used: int | None = None
    answered: bool = False
    question: Question | None = None
    unready: tuple[float, int | None] | None = None


class Watch:
    """Looks at one server again and again."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._api = Api(order)
        self._forms = {worker: kernel_form(worker) for worker in order.workers}
        self._sight = Sight()
        self._told: set[str] = set()

    def look(self) -> None:
        """Look once, and end the server when it cannot work any more."""
        if why := self._trouble():
            self._end(why)
            self._sight = Sight()

    def _trouble(self) -> str:
        """Return why the server has to start anew; empty when it has not."""
        health = self._api.health()
        found = {worker: links(forms) for worker, forms in self._forms.items()}
        self._probe({link.inode for several in found.values() for link in several})
        for worker, several in found.items():
            if any(link.retransmissions >= MOST_RETRANSMISSIONS for link in several):
                return f"worker {worker} acknowledges nothing any more"
        if health is not Health.READY:
            self._sight.workers.clear()
            return self._unready(health)
        if self._sight.unready is not None:
            self._sight = Sight(process=self._sight.process, probed=self._sight.probed)
        if gone := self._gone(found):
            return f"the connection to worker {gone} is gone"
        return "" if self._order.may_sleep else self._work()

    def _tell(self, message: str) -> None:
        """Say something that need not be said twice."""
        if message not in self._told:
            self._told.add(message)
            say(message)

    def _probe(self, inodes: set[str]) -> None:
        """Have the kernel probe connections that it does not probe yet."""
        if not self._order.keep_alive or inodes <= self._sight.probed:
            return
        self._sight.probed |= inodes
        if process := self._process():
            script = [sys.executable, "-I", self._order.keep_alive]
            done = run([*script, f"--process={process}", "--deadline=0", "--connected", *self._order.workers])
            if done.returncode != 0:
                self._tell(done.stderr.strip())

    def _process(self) -> int:
        """Return the server's main process, 0 when it has none. It does not change while this watch runs."""
        if not self._sight.process:
            shown = run(["systemctl", "show", "--property=MainPID", "--value", "--", self._order.unit]).stdout
            self._sight.process = int(shown.strip() or 0)
        return self._sight.process

    def _gone(self, found: dict[str, list[Link]]) -> str:
        """Return a worker whose connection was there and is not; empty when there is none."""
        present = {worker for worker, several in found.items() if any(link.open for link in several)}
        closed = {worker for worker, several in found.items() if several}
        missing = (self._sight.workers | closed) - present
        if missing and self._order.may_sleep and self._api.asleep():
            missing = set()
            self._sight.workers.clear()
        if missing:
            time.sleep(SECOND_LOOK_SECONDS)
            missing = {
                worker for worker in missing if not any(link.open for link in links(self._forms[worker]))
            }
        self._sight.workers |= present
        return min(missing, default="")

    def _unready(self, health: Health) -> str:
        now = time.monotonic()
        if self._sight.unready is None:
            self._sight.unready = (now, processor_time(self._process()))
        since, used = self._sight.unready
        if now - since < self._order.load:
            return ""
        if health is Health.LOADING:
            return f"the model is not loaded after {self._order.load:.0f} s"
        if used is not None and processor_time(self._process()) == used:
            return f"it has answered nothing and done nothing for {self._order.load:.0f} s"
        self._sight.unready = None  # it is busy: measure anew
        return ""

    def _work(self) -> str:
        """Return why requests are not served as they should be; empty when they are."""
        sight, now = self._sight, time.monotonic()
        limit = self._order.quiet if sight.answered else min(self._order.quiet, FIRST_QUESTION_SECONDS)
        if sight.question is None and sight.idle and now - sight.moved < limit and not self._has_run():
            return ""
        slots = self._slots()
        if slots is None:
            return ""
        processing = sum(bool(slot.get("is_processing")) for slot in slots)
        sight.idle = bool(slots) and not processing
        if sight.idle and any("id_task" in slot for slot in slots):
            sight.answered = True
        if sight.question is not None:
            return self._judge(sight.question, processing)
        if sight.idle and now - sight.moved >= limit:
            seconds = self._order.answer if sight.answered else self._order.first_answer
            sight.question = Question(self._api, self._order, seconds)
        elif not sight.idle and now - sight.moved >= self._order.stall:
            return (
                f"nothing moved for {self._order.stall:.0f} s while it serves {processing or 'some'} requests"
            )
        return ""

    def _has_run(self) -> bool:
        """Return whether the server used the processor since it was last looked at, so may serve somebody.

        `/slots` is left alone meanwhile: b11434 writes a line into its log for each time it is asked.
        """
        before, self._sight.used = self._sight.used, processor_time(self._process())
        return before is None or before != self._sight.used

    def _slots(self) -> list[dict[str, Any]] | None:
        """Return the slots; none when it does not say, as while it hangs at some places; None if never."""
        try:
            status, text = self._api.request("/slots")
            slots = json.loads(text)
        except (OSError, ValueError):
            return []
        if status != OK or not isinstance(slots, list):
            self._tell(f"/slots answers {status}, so a hung server will not be noticed: {text[:200]}")
            return None
        if text != self._sight.slots:
            self._sight.slots = text
            self._sight.moved = time.monotonic()
        return slots

    def _judge(self, question: Question, processing: int) -> str:
        """Return why an unanswered question means that the server hangs; empty when it does not.

        A request that came at the same moment may have been served first. It moves, or there are two.
        """
        sight, now = self._sight, time.monotonic()
        if question.over:
            sight.question, sight.moved = None, now
            if question.status == OK:
                sight.answered = True
            else:
                self._tell(f"a request for one token failed: {question.status or question.failure}")
        elif question.late:
            if now - sight.moved >= question.seconds / 2 and processing <= 1:
                return f"a request for one token was not answered within {question.seconds:.0f} s"
            sight.question = None
        return ""

    def _end(self, why: str) -> None:
        say(f"restarting {self._order.unit}: {why}")
        # --kill-who: the newer --kill-whom is not known before systemd 252
        done = run(["systemctl", "kill", "--kill-who=main", "--signal=SIGKILL", "--", self._order.unit])
        if done.returncode != 0:
            say(done.stderr.strip())


def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env=os.environ,
    )


def read_order(arguments: list[str]) -> Order:
    """Return what the command line orders."""
    import argparse  # noqa: PLC0415 - the tests import this file without needing it

    parser = argparse.ArgumentParser(description="Restart a server that cannot work any more.")
    parser.add_argument("--unit", required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--task", choices=sorted(QUESTIONS), default="chat")
    parser.add_argument("--worker", action="append", default=[], dest="workers", metavar="ADDRESS:PORT")
    parser.add_argument("--key-file", default="")
    parser.add_argument("--keep-alive", default="", metavar="SCRIPT")
    parser.add_argument("--may-sleep", action="store_true")
    for name in ("every", "quiet", "answer", "first-answer", "stall", "load"):
        default = getattr(Order, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=float, default=default, metavar="SECONDS")
    given = vars(parser.parse_args(arguments))
    return Order(**{**given, "workers": tuple(given["workers"])})


def main(arguments: list[str]) -> None:
    """Watch until somebody ends it."""
    order = read_order(arguments)
    watch = Watch(order)
    while True:
        watch.look()
        time.sleep(order.every)


if __name__ == "__main__":
    main(sys.argv[1:])
