"""Starting the agent on a connected node, and saying why when it does not start."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hetctl.errors import NodeUnsuitable, ProtocolMismatch, SessionLost, TransportError
from hetctl.transport.base import Channel, Transport
from hetctl.transport.bootstrap import EXIT_NO_PYTHON, EXIT_TOO_OLD, READY, Start, start_command
from hetctl.transport.bundle import agent_bundle
from hetctl.transport.frames import MAGIC, FrameStream

PROTOCOL = 1
HELLO_SECONDS = 20.0
SLICE_SECONDS = 0.5
LAST_WORDS_SECONDS = 2.0
RECEIVE_SIZE = 1 << 18
PYTHON_FIX = "install Python 3.10 or newer on the node, such as `apt install python3`"
ROOT_FIX = "log in as root, let sudo ask this user for no password, or give the password"


@dataclass(frozen=True, slots=True)
class Launched:
    """A running agent.

    Arguments:
        channel: Its input and output.
        frames: What it says, from behind the greeting.
        hello: The greeting.
    """

    channel: Channel
    frames: FrameStream
    hello: dict[str, Any]


def launch(
    transport: Transport,
    node: str,
    *,
    read_only: bool,
    root: str,
    become_root: bool | None,
    sudo_password: Callable[[], str] | None,
) -> Launched:
    """Start the agent and wait for its greeting.

    Arguments:
        transport: A connected transport.
        node: Name of the node, for errors.
        read_only: The agent shall refuse to change anything.
        root: Prefix of every path on the node; "/" outside of tests.
        become_root: Use sudo; None for: when the transport's user is not root.
        sudo_password: Returns what sudo asks for; None when it asks for nothing.

    Raises:
        NodeUnsuitable: No usable Python, or no way to become root.
        ProtocolMismatch: Something else than this version's agent answers.
        SessionLost: The connection broke.
    """
    sudo = transport.user != "root" if become_root is None else become_root
    password = sudo_password() if sudo and sudo_password else None
    start = start_command(agent_bundle(), read_only=read_only, root=root, sudo=sudo, password=password)
    channel = transport.execute(start.command)
    try:
        frames = _greeting_stream(channel, node)
        hello = _greet(channel, frames, start)
    except SessionLost as error:
        channel.close()
        raise _diagnose(channel, node, transport.target) from error
    except BaseException:
        channel.close()
        raise
    if hello is None:
        raise _diagnose(channel, node, transport.target)
    if hello.get("protocol") != PROTOCOL:
        channel.close()
        raise ProtocolMismatch(
            f"the agent speaks protocol {hello.get('protocol')!r}, not {PROTOCOL}", where=node
        )
    return Launched(channel, frames, hello)


def _greet(channel: Channel, frames: FrameStream, start: Start) -> dict[str, Any] | None:
    """Send what the agent needs and return its greeting, None when its output ends before."""
    channel.send(start.first_input)
    if start.second_input:
        if not frames.skip_to(READY):
            return None
        channel.send(start.second_input)
    item = frames.read() if frames.skip_to(MAGIC) else None
    if item is None:
        return None
    hello: dict[str, Any] = item[0].get("hello", {})
    return hello


def _greeting_stream(channel: Channel, node: str) -> FrameStream:
    """Return the output up to a common deadline, in slices so that a refused password is seen at once."""
    ends = time.monotonic() + HELLO_SECONDS

    def receive() -> bytes:
        while True:
            left = ends - time.monotonic()
            if left <= 0:
                raise SessionLost(f"the agent did not greet within {HELLO_SECONDS:.0f} s", where=node)
            try:
                return channel.receive(RECEIVE_SIZE, deadline=min(left, SLICE_SECONDS))
            except SessionLost:
                if "try again" in channel.errors():
                    raise

    return FrameStream(receive)


def _diagnose(channel: Channel, node: str, target: str) -> TransportError:
    """Say why the agent did not start."""
    channel.close_input()
    status: int | None = None
    with contextlib.suppress(SessionLost):
        status = channel.exit_status(deadline=LAST_WORDS_SECONDS)
    said = channel.errors().strip()
    channel.close()
    if "sudo" in said or "try again" in said:
        return NodeUnsuitable(f"{target} may not become root", where=node, why=said, fix=ROOT_FIX)
    if status == EXIT_TOO_OLD:
        return NodeUnsuitable("the node's Python is too old", where=node, why=said, fix=PYTHON_FIX)
    if status == EXIT_NO_PYTHON:
        return NodeUnsuitable("there is no Python on the node", where=node, why=said, fix=PYTHON_FIX)
    if status is None:
        return NodeUnsuitable(
            f"the agent did not start within {HELLO_SECONDS:.0f} s",
            where=node,
            why=said,
            fix="look for a login script that waits for input",
        )
    return NodeUnsuitable(
        "the agent did not start",
        where=node,
        why=f"exit status {status}: {said}",
        fix="run `python3 -c 'print(1)'` on the node; a forced command or a nologin shell looks like this",
    )
