"""Waits until every RPC worker answers with the expected protocol version. One self-contained file.

It runs on the head's node before llama-server starts (`ExecStartPre=`), since a llama-server that finds a
worker missing ends, and one that finds another protocol crashes. Exit status: 0 all answered, 1 not in time,
2 usage.

    python3 -I wait_for_workers.py --deadline 120 --expect 7.0.0 10.0.0.6:20052 10.0.0.7:20052

A worker serves one client at a time: while another is attached, a greeting stays unanswered, and one that is
given up before its answer came kills a worker that does not ignore SIGPIPE, as soon as it gets to it. So a
worker on this machine is left alone while it has a client, and the answer to a greeting is awaited until the
deadline.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

HELLO, DEVICE_COUNT, GET_DEVICE_MEMORY = 14, 15, 11
HELLO_CAPABILITIES = bytes(24)
LONGEST_ANSWER = 1 << 20
"""Commands of ggml-rpc. A request is one byte, the length of the payload in eight, and the payload."""

RETRY_SECONDS = 0.2
CONNECT_SECONDS = 3.0
ESTABLISHED, CLOSE_WAIT = 0x01, 0x08
"""TCP states that mean a client; in CLOSE_WAIT it has gone and the worker has not noticed yet."""


class NotReady(Exception):  # noqa: N818 - the name says what holds
    """The worker does not answer as expected."""


def receive(connection: socket.socket, size: int) -> bytes:
    """Return exactly `size` bytes."""
    data = b""
    while len(data) < size:
        block = connection.recv(size - len(data))
        if not block:
            raise NotReady(f"the worker closed the connection after {len(data)} of {size} bytes")
        data += block
    return data


def request(connection: socket.socket, command: int, payload: bytes = b"") -> bytes:
    """Send one command and return its answer."""
    connection.sendall(struct.pack("<BQ", command, len(payload)) + payload)
    (size,) = struct.unpack("<Q", receive(connection, 8))
    if size > LONGEST_ANSWER:
        raise NotReady(f"an answer of {size} bytes: this is no RPC worker")
    return receive(connection, size)


def hello(connection: socket.socket) -> tuple[int, int, int]:
    """Return the worker's protocol version."""
    answer = request(connection, HELLO, HELLO_CAPABILITIES)
    if len(answer) < 3:  # noqa: PLR2004 - major, minor, patch
        raise NotReady(f"a greeting of {len(answer)} bytes: this is no RPC worker")
    return answer[0], answer[1], answer[2]


def parse_endpoint(text: str) -> tuple[str, int]:
    """Return address and port of `10.0.0.6:20052`."""
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)


def parse_clients(text: str, port: int) -> list[tuple[str, int]]:
    """Return peer address and TCP state of each client of a port, from the text of /proc/net/tcp or tcp6."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        state = int(fields[3], 16)
        if int(fields[1].split(":")[1], 16) == port and state in (ESTABLISHED, CLOSE_WAIT):
            found.append((_address(fields[2].split(":")[0]), state))
    return sorted(found, key=lambda client: client[1])


def _address(words: str) -> str:
    """Return an address: 32-bit words in host order; IPv4 inside IPv6 as IPv4."""
    raw = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    if raw.startswith(bytes(10) + b"\xff\xff"):
        raw = raw[12:]
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)  # noqa: PLR2004 - IPv4


def is_local(address: str) -> bool:
    """Tell whether an address is one of this machine's: only then can a socket have it as its own."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def attached_client(address: str, port: int, proc: str = "/proc") -> tuple[str, int] | None:
    """Return address and TCP state of a client of a worker on this machine, None when there is none.

    Of a worker on another machine this sees nothing.
    """
    if not is_local(address):
        return None
    for name in ("tcp", "tcp6"):
        try:
            with open(f"{proc}/net/{name}", encoding="ascii") as file:
                clients = parse_clients(file.read(), port)
        except FileNotFoundError:
            continue
        if clients:
            return clients[0]
    return None


def check(address: str, port: int, expected: tuple[int, int, int], ends: float) -> str:
    """Return "" once the worker answered as expected, else why not yet. Waits for an answer until `ends`."""
    if client := attached_client(address, port):
        return f"busy: {client[0]} is attached"
    try:
        with socket.create_connection(
            (address, port), min(CONNECT_SECONDS, max(0.1, ends - time.monotonic()))
        ) as link:
            link.settimeout(max(0.1, ends - time.monotonic()))
            found = hello(link)
    except (OSError, NotReady) as error:
        return str(error) or type(error).__name__
    if found != expected:
        return "it speaks protocol " + ".".join(map(str, found))
    return ""


def wait(endpoints: list[tuple[str, int]], expected: tuple[int, int, int], seconds: float) -> str:
    """Return "" once all workers answered as expected, else the first one that did not, and why."""
    ends = time.monotonic() + seconds
    for address, port in endpoints:
        while why := check(address, port, expected, ends):
            if time.monotonic() + RETRY_SECONDS > ends:
                return f"{address}:{port}: {why}"
            time.sleep(RETRY_SECONDS)
    return ""


def main(arguments: list[str]) -> int:
    """Wait as the command line says and return the exit status."""
    import argparse  # noqa: PLC0415 - the agent imports this file without needing it

    parser = argparse.ArgumentParser(description="Wait until RPC workers answer.")
    parser.add_argument("--deadline", type=float, default=120.0, help="seconds to wait for all of them")
    parser.add_argument("--expect", required=True, help="protocol version, such as 7.0.0")
    parser.add_argument("endpoints", nargs="+", help="address:port of each worker")
    given = parser.parse_args(arguments)
    try:
        major, minor, patch = (int(part) for part in given.expect.split("."))
        endpoints = [parse_endpoint(text) for text in given.endpoints]
    except ValueError as error:
        parser.error(str(error))
    missing = wait(endpoints, (major, minor, patch), given.deadline)
    if missing:
        sys.stderr.write(f"no RPC protocol {given.expect} from {missing}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
