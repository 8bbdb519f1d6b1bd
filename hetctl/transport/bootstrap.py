"""The one command that starts the agent on a node.

The login shell may be any shell, so the command is `exec sh -c WORD …` with words that no shell treats
specially. The shell script looks for a Python that is new enough; Python reads the bundle from standard input
and runs it. Nothing is written to the node.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetctl.transport.bundle import Bundle
from hetctl.transport.quoting import shell_command

READY = b"hetctl-ready"
"""Printed once the command runs with its final rights: until then standard input belongs to sudo."""

HEADER = "hetctl-bundle-1"
EXIT_TOO_OLD = 75
EXIT_NO_PYTHON = 127

_PYTHONS = "python3 python3.14 python3.13 python3.12 python3.11 python3.10"

# -I: nothing of the user's environment; -S: no site-packages, which saves time; -B: write no bytecode.
_SCRIPT = (
    'SSH_CONNECTION="${SSH_CONNECTION:-$2}"; export SSH_CONNECTION; '
    f"echo {READY.decode()}; e={EXIT_NO_PYTHON}; "
    f"for p in {_PYTHONS}; do "
    "command -v $p >/dev/null 2>&1 || continue; "
    f'$p -ISB -c "$1"; e=$?; [ $e -eq {EXIT_TOO_OLD} ] || exit $e; done; exit $e'
)

_PYTHON = (
    "import sys;"
    'sys.version_info<(3,10)and[print("found Python",sys.version.split()[0],file=sys.stderr),'
    f"sys.exit({EXIT_TOO_OLD})];"
    "import zlib;i=sys.stdin.buffer;"
    f'h=next((l for l in i if l.startswith(b"{HEADER} ")),None)or sys.exit(70);'
    'exec(zlib.decompress(i.read(int(h.split()[1]))),{"__name__":"hetctl_loader","HEADER":h,"INPUT":i})'
)

_SUDO_QUIET = 'exec sudo -n -- sh -c "$1" hetctl "$2" "$SSH_CONNECTION"'
_SUDO_PASSWORD = 'exec sudo -S -k -p "" -- sh -c "$1" hetctl "$2" "$SSH_CONNECTION"'  # noqa: S105 - no password


@dataclass(frozen=True, slots=True)
class Start:
    """How to start an agent.

    Arguments:
        command: For the node's login shell.
        first_input: What to send at once.
        second_input: What to send when READY was seen; empty when everything goes at once.
    """

    command: str
    first_input: bytes
    second_input: bytes


def start_command(bundle: Bundle, *, read_only: bool, root: str, sudo: bool, password: str | None) -> Start:
    """Return the command that starts the agent and what to feed it.

    Arguments:
        bundle: The agent.
        read_only: It shall refuse to change anything.
        root: Prefix of every path on the node; "/" outside of tests.
        sudo: Become root first.
        password: What sudo asks for; None when it asks for nothing.
    """
    mode = "read" if read_only else "write"
    header = f"{HEADER} {len(bundle.payload)} {bundle.sha256} {mode} {root.encode().hex()}\n".encode()
    body = header + bundle.payload
    if not sudo:
        return Start(shell_command(["exec", "sh", "-c", _SCRIPT, "hetctl", _PYTHON]), body, b"")
    outer = _SUDO_QUIET if password is None else _SUDO_PASSWORD
    command = shell_command(["exec", "sh", "-c", outer, "hetctl", _SCRIPT, _PYTHON])
    if password is None:
        return Start(command, body, b"")
    return Start(command, password.encode() + b"\n", body)
