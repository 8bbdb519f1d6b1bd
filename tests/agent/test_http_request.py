"""HTTP requests made on a node, against a real server."""

from __future__ import annotations

import http.server
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hetctl.agent.failures import Failure

if TYPE_CHECKING:
    from tests.agent.conftest import Node


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as its parent
        pass

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(1.0)
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.reply(
            503 if self.path == "/loading" else 200, json.dumps(dict(self.headers), sort_keys=True).encode()
        )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/stream":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for word in json.loads(body)["words"]:
                self.wfile.write(f"data: {json.dumps(word)}\n\n".encode())
            self.wfile.write(b": comment\n\ndata: [DONE]\n\n")
            self.close_connection = True
            return
        self.reply(200, body)


def serving(server: http.server.ThreadingHTTPServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.fixture
def server() -> Iterator[str]:
    for address in serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)):
        yield f"http://{address}"


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[str]:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    argv = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*argv, *names], check=True, capture_output=True)
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    for address in serving(listening):
        yield f"https://{address}"


def test_an_answer_has_status_headers_and_text(own_node: Node, server: str) -> None:
    answer = own_node("http", {"url": f"{server}/health?x=1", "headers": {"X-Mine": "yes"}})
    assert answer["status"] == 200
    assert answer["headers"]["content-type"] == "application/json"
    assert json.loads(answer["text"])["X-Mine"] == "yes"


def test_errors_and_redirections_of_the_server_are_answers(own_node: Node, server: str) -> None:
    assert own_node("http", {"method": "GET", "url": f"{server}/loading"})["status"] == 503
    moved = own_node("http", {"method": "GET", "url": f"{server}/moved"})
    assert (moved["status"], moved["headers"]["location"]) == (302, "/elsewhere")


def test_json_is_sent_and_a_key_from_a_file(node: Node, server: str) -> None:
    node.write("/etc/key", "sesame\nsecond line\n", 0o600)
    posted = node("http", {"method": "POST", "url": f"{server}/", "json": {"a": "ä"}})
    assert json.loads(posted["text"]) == {"a": "ä"}
    seen = json.loads(node("http", {"url": f"{server}/", "bearer_file": "/etc/key"})["text"])
    assert seen["Authorization"] == "Bearer sesame"
    with pytest.raises(Failure, match="/etc/none"):
        node("http", {"url": f"{server}/", "bearer_file": "/etc/none"})


def test_a_stream_comes_as_events(own_node: Node, server: str) -> None:
    answer = own_node(
        "http", {"method": "POST", "url": f"{server}/stream", "json": {"words": ["a", "b c"]}, "stream": True}
    )
    assert answer["status"] == 200
    assert own_node.events == [{"data": '"a"'}, {"data": '"b c"'}, {"data": "[DONE]"}]


def test_a_stream_that_is_refused_is_an_answer_with_text(own_node: Node, server: str) -> None:
    answer = own_node("http", {"url": f"{server}/loading", "stream": True})
    assert answer["status"] == 503
    assert answer["text"]
    assert own_node.events == []


def test_no_answer_is_a_failure_that_says_why(own_node: Node, server: str) -> None:
    with pytest.raises(Failure) as caught:
        own_node("http", {"url": f"{server}/slow", "timeout": 0.2})
    assert caught.value.as_json()["timed_out"] is True
    with pytest.raises(Failure) as caught:
        own_node("http", {"url": "http://127.0.0.1:1/"})
    assert caught.value.as_json()["timed_out"] is False
    assert "refused" in caught.value.why


def test_certificates_are_checked_unless_told_otherwise(node: Node, tls_server: str, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="no answer") as caught:
        node("http", {"url": f"{tls_server}/"})
    assert "certificate" in caught.value.why.lower()
    assert node("http", {"url": f"{tls_server}/", "insecure": True})["status"] == 200
    node.write("/etc/ca.pem", (tmp_path / "cert.pem").read_bytes())
    assert node("http", {"url": f"{tls_server}/", "ca_file": "/etc/ca.pem"})["status"] == 200


@pytest.mark.parametrize(
    "arguments",
    [
        {"url": "ftp://x/"},
        {"url": "http:///x"},
        {"url": "file:///etc/passwd"},
        {"url": "http://127.0.0.1/", "method": "TRACE"},
        {"url": "http://127.0.0.1/", "headers": {"A": "b\r\nC: d"}},
        {},
    ],
)
def test_senseless_requests_are_refused(own_node: Node, arguments: dict[str, object]) -> None:
    with pytest.raises(Failure) as caught:
        own_node("http", arguments)
    assert caught.value.kind == "bad-request"
