"""Has the kernel find out when the other end of a process's connections is gone. One self-contained file.

Neither end of ggml-rpc asks for TCP keepalive (transport.cpp at b11434). When a machine loses power, the
other end keeps the connection for ever: an idle head believes in a worker that is gone, and a worker waits
for a head that is gone and accepts no other. This switches keepalive on from outside, on the very sockets
(pidfd_getfd, Linux 5.6). Sockets that are accepted later inherit it from the listening one.

    python3 -I keep_alive.py --process 1234 --listening 20052
    python3 -I keep_alive.py --process 1234 --connected 10.0.0.6:20052 10.0.0.7:20052

It needs CAP_SYS_PTRACE and, for processes of other users, CAP_DAC_READ_SEARCH. Without `--process` it takes
`$MAINPID`, as systemd sets it for ExecStartPost=. Exit status: 0 done, 1 not possible, 2 usage.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time

IDLE_SECONDS, INTERVAL_SECONDS, PROBES = 10, 10, 6
"""A machine that came back answers the next probe with a reset, so at most ten seconds after it is up. One
that stays away is given up after 70: a switch that restarts must not cost a model reload."""

LISTEN, ESTABLISHED = "0A", "01"
PIDFD_OPEN, PIDFD_GETFD = 434, 438
"""System call numbers, the same on every architecture since Linux 5.1 (asm-generic/unistd.h)."""

RETRY_SECONDS = 0.1


class NotPossible(Exception):  # noqa: N818 - the name says what holds
    """The sockets of the process cannot be reached."""


def kernel_form(address: str, port: int) -> list[str]:
    """Return how /proc/net/tcp and tcp6 write an endpoint: 32-bit words in host order, in hex."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    forms = [packed] if ":" in address else [packed, bytes(10) + b"\xff\xff" + packed]
    words = [struct.unpack(f"={len(form) // 4}I", form) for form in forms]
    return ["".join(f"{word:08X}" for word in form) + f":{port:04X}" for form in words]


def sockets(proc: str = "/proc") -> list[list[str]]:
    """Return the fields of each line of /proc/net/tcp and tcp6."""
    found = []
    for name in ("tcp", "tcp6"):
        try:
            with open(f"{proc}/net/{name}", encoding="ascii") as file:
                found += [line.split() for line in file.read().splitlines()[1:]]
        except FileNotFoundError:  # a kernel without IPv6
            continue
    return found


def listening(port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a port."""
    return {row[9] for row in sockets() if row[3] == LISTEN and int(row[1].rpartition(":")[2], 16) == port}


def connected(endpoints: list[str]) -> set[str]:
    """Return the inodes of the sockets connected to one of some endpoints such as `10.0.0.6:20052`."""
    wanted = set()
    for endpoint in endpoints:
        address, _, port = endpoint.rpartition(":")
        wanted |= set(kernel_form(address.strip("[]"), int(port)))
    return {row[9] for row in sockets() if row[3] == ESTABLISHED and row[2] in wanted}


def descriptors(process: int, inodes: set[str]) -> list[int]:
    """Return the descriptors by which a process holds sockets of these inodes."""
    found = []
    for name in os.listdir(f"/proc/{process}/fd"):
        try:
            target = os.readlink(f"/proc/{process}/fd/{name}")
        except FileNotFoundError:  # closed in between
            continue
        if target.startswith("socket:[") and target[len("socket:[") : -1] in inodes:
            found.append(int(name))
    return found


def borrow(process: int, numbers: list[int]) -> list[socket.socket]:
    """Return descriptors of another process as sockets of this one.

    Raises:
        NotPossible: The kernel does not allow it; says why.
    """
    try:
        import ctypes  # noqa: PLC0415 - a Python without it exists, and is told apart here
    except ImportError as error:
        raise NotPossible(f"this Python cannot make system calls: {error}") from error
    system_call = ctypes.CDLL(None, use_errno=True).syscall

    def call(number: int, first: int, second: int) -> int:
        result: int = system_call(*map(ctypes.c_long, (number, first, second, 0)))
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    handle = call(PIDFD_OPEN, process, 0)
    try:
        return [socket.socket(fileno=call(PIDFD_GETFD, handle, number)) for number in numbers]
    finally:
        os.close(handle)


def switch_on(link: socket.socket) -> None:
    """Have the kernel probe a connection, or those accepted from a listening socket, when it is quiet.

    No TCP_USER_TIMEOUT: it would also end connections to a worker that is alive and too busy to read.
    """
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL_SECONDS)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def keep_alive(process: int, inodes: set[str]) -> int:
    """Switch keepalive on for the sockets a process holds among these, and return how many those are.

    Raises:
        NotPossible: They cannot be reached.
    """
    try:
        numbers = descriptors(process, inodes)
        links = borrow(process, numbers) if numbers else []
    except OSError as error:
        raise NotPossible(f"the sockets of process {process} cannot be reached: {error}") from error
    for link in links:
        with link:
            switch_on(link)
    return len(links)


def main(arguments: list[str]) -> int:
    """Do what the command line says and return the exit status."""
    import argparse  # noqa: PLC0415 - the agent imports this file without needing it

    parser = argparse.ArgumentParser(description="Switch TCP keepalive on for another process.")
    parser.add_argument("--process", type=int, default=int(os.environ.get("MAINPID") or 0), help="its id")
    parser.add_argument("--deadline", type=float, default=20.0, help="seconds to wait for its sockets")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--listening", type=int, metavar="PORT", help="the port it listens on")
    which.add_argument("--connected", nargs="+", metavar="ENDPOINT", help="address:port of each other end")
    given = parser.parse_args(arguments)
    if given.process <= 0:
        parser.error("neither --process nor $MAINPID names a process")
    ends = time.monotonic() + given.deadline
    while True:
        inodes = listening(given.listening) if given.connected is None else connected(given.connected)
        try:
            if keep_alive(given.process, inodes):
                return 0
        except NotPossible as error:
            why = str(error)
            break
        if time.monotonic() > ends or not os.path.exists(f"/proc/{given.process}"):
            why = f"process {given.process} has no such socket"
            break
        time.sleep(RETRY_SECONDS)
    sys.stderr.write(f"no keepalive: {why}; a peer that loses power will not be noticed\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
