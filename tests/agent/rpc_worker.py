"""A stand-in for ggml-rpc-server: one client at a time, the real framing, the real backlog.

Run as a program so that it can die the way the real one does: an answer written to a socket that was closed
ends it, since ggml-rpc-server leaves SIGPIPE as it is.

    python rpc_worker.py ADDRESS PORT MAJOR MINOR PATCH
"""

from __future__ import annotations

import signal
import socket
import struct
import sys
from contextlib import suppress

HELLO, DEVICE_COUNT, GET_DEVICE_MEMORY = 14, 15, 11
DEVICES = ((11_000_000_000, 11_811_160_064), (15_000_000_000, 17_179_869_184))


def receive(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        block = link.recv(size - len(data))
        if not block:
            raise ConnectionError
        data += block
    return data


def answer(command: int, payload: bytes, version: tuple[int, ...]) -> bytes:
    if command == HELLO:
        assert payload == bytes(24)
        return bytes(version) + b"\0" + bytes(24)
    if command == DEVICE_COUNT:
        return struct.pack("<I", len(DEVICES))
    (device,) = struct.unpack("<I", payload)
    return struct.pack("<QQ", *DEVICES[device])


def serve(link: socket.socket, version: tuple[int, ...]) -> None:
    while True:
        command, size = struct.unpack("<BQ", receive(link, 9))
        reply = answer(command, receive(link, size), version)
        link.sendall(struct.pack("<Q", len(reply)))
        link.sendall(reply)


def main(address: str, port: int, version: tuple[int, ...]) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with socket.create_server((address, port), backlog=1) as server:
        sys.stdout.write(f"{server.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            link, _ = server.accept()
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with link, suppress(ConnectionError):
                serve(link, version)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), tuple(int(part) for part in sys.argv[3:6]))
