"""Every exception of the libraries becomes one of ours."""

from __future__ import annotations

import errno
import inspect
import socket
from typing import Any

import paramiko
import pytest
from paramiko import ssh_exception

from hetctl.errors import HostKeyChanged, LoginRefused, NodeUnreachable, SessionLost, TransportError
from hetctl.transport.ssh_errors import causes, translate

KEY = paramiko.RSAKey.generate(1024)

MADE: dict[str, Any] = {
    "SSHException": ("went wrong",),
    "AuthenticationException": ("went wrong",),
    "PasswordRequiredException": ("went wrong",),
    "BadAuthenticationType": ("went wrong", ["publickey"]),
    "PartialAuthentication": (["publickey"],),
    "UnableToAuthenticate": ("went wrong",),
    "ChannelException": (1, "Administratively prohibited"),
    "BadHostKeyException": ("atlas", KEY, KEY),
    "IncompatiblePeer": ("no common kex",),
    "ProxyCommandFailure": ("nc", "not found"),
    "NoValidConnectionsError": ({("10.0.0.5", 22): ConnectionRefusedError(111, "refused")},),
    "CouldNotCanonicalize": ("went wrong",),
    "ConfigParseError": ("went wrong",),
    "MessageOrderError": ("went wrong",),
}
LOGIN = {
    "AuthenticationException", "PasswordRequiredException", "BadAuthenticationType", "PartialAuthentication",
    "UnableToAuthenticate",
}  # fmt: skip


def paramiko_exceptions() -> list[type[BaseException]]:
    found = [value for _, value in inspect.getmembers(ssh_exception, inspect.isclass)]
    return [
        value
        for value in found
        if issubclass(value, Exception) and value.__module__ == ssh_exception.__name__
    ]


def test_the_list_here_is_complete() -> None:
    assert {value.__name__ for value in paramiko_exceptions()} == set(MADE)


@pytest.mark.parametrize("kind", paramiko_exceptions(), ids=lambda kind: kind.__name__)
def test_each_exception_of_paramiko_is_caught_and_translated(kind: type[BaseException]) -> None:
    error = kind(*MADE[kind.__name__])
    assert isinstance(error, causes())
    for opened in (False, True):
        ours = translate(error, "root@atlas", stage="greeting", opened=opened)
        if kind.__name__ in LOGIN:
            expected: type[TransportError] = LoginRefused
        elif kind.__name__ == "BadHostKeyException":
            expected = HostKeyChanged
        else:
            expected = SessionLost if opened else NodeUnreachable
        assert type(ours) is expected
        assert ours.where == "root@atlas"
        assert ours.why
        assert ours.fix or opened or expected is HostKeyChanged


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "not known"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "refuses"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "no route"),
        (TimeoutError("timed out"), "in time"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "while greeting"),
        (EOFError(), "while greeting"),
        (ValueError("q must be exactly 160 bits"), "while greeting"),
    ],
)
def test_errors_of_the_system_are_caught_and_translated(error: BaseException, words: str) -> None:
    assert isinstance(error, causes())
    ours = translate(error, "root@atlas", stage="greeting")
    assert isinstance(ours, NodeUnreachable)
    assert words in ours.what
    assert ours.why


def test_our_own_errors_pass_unchanged() -> None:
    ours = HostKeyChanged("x")
    assert translate(ours, "root@atlas", stage="greeting") is ours
