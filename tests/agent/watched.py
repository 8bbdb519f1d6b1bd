"""What a watch looks at: an HTTP stand-in for llama-server, and real connections to a worker."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hetctl.agent.watch_gang import Order, Watch

UNIT = "hetctl:den:chat:server.service"
IDLE: list[dict[str, Any]] = [{"id": 0, "is_processing": False, "id_task": 7}]
ENDED = [f"kill --kill-who=main --signal=SIGKILL -- {UNIT}"]
Ended = Callable[[], list[str]]
"""Returns what systemctl was told to end so far."""


def order(server: Server, *workers: str, **other: Any) -> Order:
    patience = {"quiet": 600.0, "answer": 0.6, "first_answer": 0.6, "stall": 0.6, "load": 600.0}
    return Order(unit=UNIT, url=server.url, model="chat", workers=workers, **{**patience, **other})


def look(watch: Watch, true: Callable[[], bool] = lambda: False, *, seconds: float = 10.0) -> bool:
    """Look until something is true; return whether it became so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        watch.look()
        if true():
            return True
        time.sleep(0.02)
    return true()


class Server:
    """A stand-in for llama-server: what it answers is set from outside."""

    def __init__(self) -> None:
        self.health = 200
        # None: it does not answer, as when it hangs at some places
        self.slots: list[dict[str, Any]] | None = IDLE
        self.slots_status = 200
        # set: tasks are not answered; a hung server still answers `/health`
        self.hung = threading.Event()
        self.released = threading.Event()
        self.silent = False
        self.asleep = False
        self.asked: list[tuple[str, Any, str]] = []
        self.looked = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def end(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _get(self, path: str) -> tuple[int, Any]:
        if path == "/health":
            if self.silent:
                self.released.wait()
            return self.health, {"status": "ok"}
        if path == "/props":
            return 200, {"is_sleeping": self.asleep}
        self.looked += 1
        if self.slots is None:
            self.released.wait()
        return self.slots_status, self.slots

    def _post(self, path: str, body: Any, key: str) -> tuple[int, Any]:
        self.asked.append((path, body, key))
        if self.hung.is_set():
            self.released.wait()
        return 200, {}

    def _handler(outer) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the request's in there
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(*outer._get(self.path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.answer(*outer._post(self.path, body, self.headers.get("Authorization", "")))

            def answer(self, status: int, body: Any) -> None:
                if outer.released.is_set():
                    return  # whoever waited has gone
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


class Links:
    """The connections of a head to a worker, both ends of them."""

    def __init__(self) -> None:
        self._sockets = [socket.create_server(("127.0.0.1", 0))]
        self._place = self._sockets[0].getsockname()
        self.endpoint = f"127.0.0.1:{self._place[1]}"
        self.connect()

    def connect(self) -> None:
        """Connect once more; `head` and `worker` are the newest connection's ends."""
        self.head = socket.create_connection(self._place)
        self.worker, _ = self._sockets[0].accept()
        self._sockets += [self.head, self.worker]

    def close(self) -> None:
        """Close the newest connection, the head's end first."""
        self.head.close()
        self.worker.close()

    def end(self) -> None:
        for link in self._sockets:
            link.close()
