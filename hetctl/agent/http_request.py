"""HTTP requests made on the node, so that the operator needs no route to its services."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hetctl.agent import arguments as arg
from hetctl.agent.failures import Failure, bad_request

if TYPE_CHECKING:
    from hetctl.agent.context import Context

LONGEST_TEXT = 4 << 20
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD")


def _connection(context: Context, arguments: dict[str, Any], seconds: float) -> http.client.HTTPConnection:
    parts = urlsplit(arg.text(arguments, "url"))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise bad_request(f"not an HTTP address: {arguments['url']!r}")
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
    authorities = arg.optional_text(arguments, "ca_file")
    trust = ssl.create_default_context(cafile=None if authorities is None else context.path(authorities))
    if arg.flag(arguments, "insecure"):
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=seconds, context=trust)


def _headers(context: Context, arguments: dict[str, Any]) -> dict[str, str]:
    headers = {str(name): str(value) for name, value in arg.table(arguments, "headers", {}).items()}
    if any("\r" in text or "\n" in text for pair in headers.items() for text in pair):
        raise bad_request("a header holds a line break")
    if bearer := arg.optional_text(arguments, "bearer_file"):
        try:
            with open(context.path(bearer), encoding="utf-8") as file:
                headers["Authorization"] = f"Bearer {file.readline().strip()}"
        except OSError as error:
            raise Failure(f"{bearer} cannot be read", why=str(error)) from error
    if arguments.get("json") is not None:
        headers.setdefault("Content-Type", "application/json")
    return headers


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _stream(context: Context, response: http.client.HTTPResponse) -> str:
    """Send each `data:` line of a server-sent event stream as an event; return the last lines."""
    kept: list[str] = []
    for line in response:
        text = line.decode(errors="replace").rstrip("\r\n")
        if text.startswith("data:"):
            context.event({"data": text[len("data:") :].strip()})
        elif text:
            kept = [*kept[-99:], text]
    return "\n".join(kept)


def http_request(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Make one request and return status, headers and text. Redirections are not followed.

    Raises:
        Failure: There was no answer; `why` is what the connection said.
    """
    method = arg.text(arguments, "method", "GET")
    if method not in METHODS:
        raise bad_request(f"not a method: {method!r}")
    url = arg.text(arguments, "url")
    seconds = min(arg.number(arguments, "timeout", 30.0), max(0.1, context.time_left()))
    payload = arguments.get("json")
    body = None if payload is None else json.dumps(payload).encode()
    headers = _headers(context, arguments)
    connection = _connection(context, arguments, seconds)
    try:
        connection.request(method, _target(url), body, headers)
        response = connection.getresponse()
        streamed = arg.flag(arguments, "stream") and response.status == http.client.OK
        text = (
            _stream(context, response) if streamed else response.read(LONGEST_TEXT).decode(errors="replace")
        )
    except (OSError, http.client.HTTPException) as error:
        why = str(error) or type(error).__name__
        raise Failure(
            f"no answer from {url}", why=why, details={"timed_out": isinstance(error, TimeoutError)}
        ) from error
    finally:
        connection.close()
    return {
        "status": response.status,
        "headers": {k.lower(): v for k, v in response.getheaders()},
        "text": text,
    }
