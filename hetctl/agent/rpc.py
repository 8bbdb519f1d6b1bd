"""Asking an RPC worker who it is, without disturbing it: see `wait_for_workers` for the rules."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent.failures import Failure
from hetctl.agent.network import checked_address
from hetctl.agent.wait_for_workers import (
    DEVICE_COUNT,
    ESTABLISHED,
    GET_DEVICE_MEMORY,
    NotReady,
    attached_client,
    hello,
    request,
)

if TYPE_CHECKING:
    from hetctl.agent.context import Context

MOST_DEVICES = 16
"""GGML_RPC_MAX_DEVICES."""

LEAVING_SECONDS = 1.0

_kept: list[subprocess.Popen[bytes]] = []
_KEEPER = "import os\nwhile os.read(0, 65536):\n pass\n"


def _keep_open(connection: socket.socket) -> None:
    """Leave a connection whose greeting is unanswered to a small process that reads the answer when it comes.

    Closing it would kill a worker that does not ignore SIGPIPE. The process ends with the connection.
    """
    connection.settimeout(None)  # the mode of the socket is shared with the process that gets it
    connection.shutdown(socket.SHUT_WR)  # so that the worker, once it has answered, ends the connection
    _kept[:] = [kept for kept in _kept if kept.poll() is None]
    keeper = subprocess.Popen(
        [sys.executable, "-IS", "-c", _KEEPER],
        stdin=connection.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    _kept.append(keeper)


def _client(context: Context, address: str, port: int) -> str | None:
    """Return who is attached. One that has just gone, such as the last probe, is given time to be noticed."""
    limit = time.monotonic() + LEAVING_SECONDS
    while client := attached_client(address, port, context.path("/proc")):
        if client[1] == ESTABLISHED or time.monotonic() > limit:
            return client[0]
        time.sleep(0.01)
    return None


def probe_rpc(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return version and devices of a worker, or that a client is attached to it.

    Raises:
        Failure: Nobody listens there, or it is no RPC worker.
    """
    address, port = checked_address(arg.text(arguments, "address")), arg.integer(arguments, "port")
    seconds = arg.number(arguments, "timeout", 5.0)
    if peer := _client(context, address, port):
        return {"busy": True, "peer": peer}
    try:
        connection = socket.create_connection((address, port), seconds)
    except OSError as error:
        raise Failure(f"no RPC worker answers at {address}:{port}", why=str(error)) from error
    with connection:
        connection.settimeout(seconds)
        try:
            return _ask(connection)
        except TimeoutError:
            _keep_open(connection)  # somebody attached between the look and the greeting
            return {"busy": True, "peer": _client(context, address, port)}
        except (OSError, NotReady) as error:
            raise Failure(f"no RPC worker answers at {address}:{port}", why=str(error)) from error
        except BaseException:
            _keep_open(connection)
            raise


def _ask(connection: socket.socket) -> dict[str, Any]:
    version = hello(connection)
    (count,) = struct.unpack("<I", request(connection, DEVICE_COUNT))
    if count > MOST_DEVICES:
        raise NotReady(f"{count} devices")
    devices = []
    for number in range(count):
        free, total = struct.unpack("<QQ", request(connection, GET_DEVICE_MEMORY, struct.pack("<I", number)))
        devices.append({"free": free, "total": total})
    return {"version": list(version), "devices": devices}
