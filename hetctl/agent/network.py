"""Addresses, routes and TCP reachability of a node."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent.failures import Failure, bad_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetctl.agent.context import Context

RTM_GETADDR, NLM_F_REQUEST, NLM_F_DUMP = 22, 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
IFA_ADDRESS, IFA_LOCAL = 1, 2
"""Numbers of rtnetlink(7), linux/rtnetlink.h and linux/if_addr.h."""

_HEADER = struct.Struct("=IHHII")
_ADDRESS = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind, data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3


def _messages(connection: socket.socket) -> Iterator[bytes]:
    while True:
        data = connection.recv(1 << 16)
        at = 0
        while at + _HEADER.size <= len(data):
            length, kind, *_ = _HEADER.unpack_from(data, at)
            if kind == NLMSG_DONE:
                return
            if kind == NLMSG_ERROR or length < _HEADER.size:
                raise Failure("the kernel does not tell its addresses")
            yield data[at + _HEADER.size : at + length]
            at += (length + 3) & ~3


def addresses() -> list[dict[str, Any]]:
    """Return the addresses of all interfaces, asked from the kernel (rtnetlink, RTM_GETADDR)."""
    request = _HEADER.pack(_HEADER.size + _ADDRESS.size, RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
    found = []
    names = dict(socket.if_nameindex())
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as connection:
        connection.settimeout(5)
        connection.sendto(request + _ADDRESS.pack(0, 0, 0, 0, 0), (0, 0))
        for message in _messages(connection):
            family, prefix, _flags, _scope, index = _ADDRESS.unpack_from(message)
            if family not in (socket.AF_INET, socket.AF_INET6):
                continue
            attributes = dict(_attributes(message[_ADDRESS.size :]))
            raw = attributes.get(IFA_LOCAL) or attributes.get(IFA_ADDRESS)
            if raw is not None:
                found.append(
                    {
                        "interface": names.get(index, str(index)),
                        "family": "ipv4" if family == socket.AF_INET else "ipv6",
                        "address": socket.inet_ntop(family, raw),
                        "prefix": prefix,
                    }
                )
    return found


def checked_address(text: str) -> str:
    """Return an IP address in its usual form."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise bad_request(f"not an IP address: {text!r}") from error


def source_towards(address: str) -> str | None:
    """Return the source address the kernel would use, None without a route. Sends nothing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError as error:
            if error.errno in (
                errno.ENETUNREACH,
                errno.EHOSTUNREACH,
                errno.EADDRNOTAVAIL,
                errno.EINVAL,
                errno.EACCES,
            ):
                return None
            raise
        source: str = probe.getsockname()[0]
        return source


def routes(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the source address towards each destination, as `ip route get` would say."""
    del context
    return {
        "sources": {
            name: source_towards(checked_address(name)) for name in arg.texts(arguments, "destinations")
        }
    }


def probe_tcp(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Try a TCP connection and close it at once."""
    del context
    address, port = checked_address(arg.text(arguments, "address")), arg.integer(arguments, "port")
    try:
        socket.create_connection((address, port), arg.number(arguments, "timeout", 3.0)).close()
    except ConnectionRefusedError:
        return {"outcome": "refused"}
    except TimeoutError:
        return {"outcome": "timed out"}
    except OSError as error:
        return {"outcome": "unreachable", "why": str(error)}
    return {"outcome": "connected"}
