"""A cable with delay: frames between a network interface and a TAP device, each held for a while.

    python -m tests.lab.relay INTERFACE TAP MILLISECONDS RECORD

Run by `tests.lab.network.set_delay`; it writes its process id to RECORD when it is ready, and
ends on SIGTERM, and the TAP device with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

# linux/if_tun.h, linux/if_ether.h, linux/if_packet.h
_TUNSETIFF = 0x400454CA
_IFF_TAP = 0x0002
_IFF_NO_PI = 0x1000
_ETH_P_ALL = 0x0003
_PACKET_OUTGOING = 4
_BATCH = 64
_FRAME_LIMIT = 65535


def relay(interface: str, tap: str, seconds: float, record: Path) -> None:
    """Carry frames both ways for ever, each `seconds` late."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", tap.encode(), _IFF_TAP | _IFF_NO_PI))
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    packets.bind((interface, 0))
    packets.settimeout(0)
    packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    record.with_suffix(".new").write_text(str(os.getpid()))
    record.with_suffix(".new").rename(record)
    held: deque[tuple[float, Callable[[bytes], object], bytes]] = deque()
    ends: list[socket.socket | int] = [packets, device]
    while True:
        wait = max(0.0, held[0][0] - time.monotonic()) if held else None
        readable, _, _ = select.select(ends, [], [], wait)
        due = time.monotonic() + seconds
        with contextlib.suppress(BlockingIOError):
            for _ in range(_BATCH if packets in readable else 0):
                frame, source = packets.recvfrom(_FRAME_LIMIT)
                if source[2] != _PACKET_OUTGOING:
                    held.append((due, lambda data: os.write(device, data), frame))
        with contextlib.suppress(BlockingIOError):
            for _ in range(_BATCH if device in readable else 0):
                held.append((due, packets.send, os.read(device, _FRAME_LIMIT)))
        while held and held[0][0] <= time.monotonic():
            _, send, frame = held.popleft()
            with contextlib.suppress(OSError):  # an end that is down loses the frame, as a cable does
                send(frame)


if __name__ == "__main__":
    relay(sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1000, Path(sys.argv[4]))
