"""Nodes on which the agent cannot start, or only in spite of something."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from pathlib import Path

import pytest

from hetctl.errors import NodeUnsuitable, ProtocolMismatch
from hetctl.transport import launch
from hetctl.transport.fake import FakeTransport, Reply
from hetctl.transport.local import LocalTransport
from hetctl.transport.session import AgentSession


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is the whole PATH of the node: a shell and what the test adds."""
    directory = tmp_path / "programs"
    directory.mkdir()
    shell = shutil.which("sh")
    assert shell is not None
    (directory / "sh").symlink_to(shell)
    monkeypatch.setenv("PATH", str(directory))
    return directory


def python(path: Path) -> None:
    program(path, f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" "$@"\n')


def session(tmp_path: Path, transport: FakeTransport | None = None, **options: object) -> AgentSession:
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    return AgentSession("atlas", transport or FakeTransport(), read_only=True, root=str(root), **options)  # type: ignore[arg-type]  # a dictionary of arguments


@pytest.mark.usefixtures("programs")
def test_a_node_without_python_says_so(tmp_path: Path) -> None:
    with pytest.raises(NodeUnsuitable, match="no Python") as caught:
        session(tmp_path).open()
    assert caught.value.where == "atlas"
    assert "3.10" in caught.value.fix


def test_an_old_python_says_which(tmp_path: Path, programs: Path) -> None:
    program(programs / "python3", "#!/bin/sh\necho found Python 3.6.8 >&2\nexit 75\n")
    with pytest.raises(NodeUnsuitable, match="too old") as caught:
        session(tmp_path).open()
    assert "3.6.8" in caught.value.why


def test_the_check_for_old_pythons_is_in_the_command_itself(tmp_path: Path, programs: Path) -> None:
    """The interpreter's version is replaced just before the real command line runs."""
    code = "import sys; sys.version_info = (3, 9, 2); exec(sys.argv[1])"
    program(programs / "python3", f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" -c "{code}" "$3"\n')
    with pytest.raises(NodeUnsuitable, match="too old"):
        session(tmp_path).open()


def test_a_newer_python_beside_an_old_one_is_used(tmp_path: Path, programs: Path) -> None:
    program(programs / "python3", "#!/bin/sh\nexit 75\n")
    python(programs / "python3.12")
    agent = session(tmp_path)
    agent.open()
    assert agent.hello["protocol"] == 1
    agent.close()


@pytest.mark.parametrize(
    "noise", ["Welcome to atlas!\n\n", "no line break", "x" * 300_000 + "\n", '{"hello": {}}\n']
)
def test_noise_of_a_login_script_is_ignored(tmp_path: Path, noise: str) -> None:
    class Chatty(FakeTransport):
        def execute(self, command: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - as its parent
            (tmp_path / "noise").write_text(noise)
            return super().execute(f"cat {tmp_path}/noise; {command}")

    agent = session(tmp_path, Chatty())
    agent.open()
    assert agent.call("marks")["lock"] is None
    agent.close()


def test_endless_noise_is_no_agent(tmp_path: Path) -> None:
    class Endless(FakeTransport):
        def execute(self, _: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - as its parent
            return super().execute("yes noise")

    with pytest.raises((NodeUnsuitable, ProtocolMismatch)):
        session(tmp_path, Endless()).open()


def test_a_login_that_waits_for_input_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Waiting(FakeTransport):
        def execute(self, _: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - as its parent
            return super().execute("exec sleep 300")

    monkeypatch.setattr(launch, "HELLO_SECONDS", 0.5)
    monkeypatch.setattr(launch, "LAST_WORDS_SECONDS", 0.1)
    began = time.monotonic()
    with pytest.raises(NodeUnsuitable, match="did not start"):
        session(tmp_path, Waiting()).open()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(stderr="This account is currently not available.", exit=1), "not available"),
        (Reply(stdout=b"This service allows sftp connections only.\n", exit=1), "exit status 1"),
        (Reply(), "exit status 0"),
    ],
)
def test_a_shell_that_runs_nothing_is_unsuitable(tmp_path: Path, reply: Reply, words: str) -> None:
    with pytest.raises(NodeUnsuitable) as caught:
        session(tmp_path, FakeTransport(script=lambda _: reply)).open()
    assert words in caught.value.why


def test_an_agent_of_another_protocol_is_refused(tmp_path: Path) -> None:
    said = b'\nhetctl-agent-1\n{"hello":{"protocol":9}}\n'
    with pytest.raises(ProtocolMismatch, match="9"):
        session(tmp_path, FakeTransport(script=lambda _: Reply(stdout=said))).open()


SUDO = """#!/bin/sh
# stands for sudo: takes -n, or -S -k -p '' and a password on standard input
case "$1" in
-n) [ -z "{password}" ] || {{ echo "sudo: a password is required" >&2; exit 1; }}; shift 2 ;;
-S) shift 4; shift
    read -r given
    while [ "$given" != "{password}" ]; do
        echo "Sorry, try again." >&2
        read -r given || exit 1
    done ;;
esac
exec "$@"
"""


@pytest.fixture
def sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "sudo"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return directory / "sudo"


def test_another_user_becomes_root_by_sudo(tmp_path: Path, sudo: Path) -> None:
    program(sudo, SUDO.format(password=""))
    transport = FakeTransport(user="ops")
    agent = session(tmp_path, transport)
    agent.open()
    assert "sudo -n" in transport.commands[0]
    agent.close()


def test_a_sudo_password_is_given_when_asked_for_and_is_in_no_command(tmp_path: Path, sudo: Path) -> None:
    program(sudo, SUDO.format(password="correct horse"))
    transport = FakeTransport(user="ops")
    agent = session(tmp_path, transport, sudo_password=lambda: "correct horse")
    agent.open()
    assert agent.call("marks")["lock"] is None
    assert "horse" not in transport.commands[0]
    agent.close()


def test_a_password_that_sudo_did_not_ask_for_does_no_harm(tmp_path: Path, sudo: Path) -> None:
    program(sudo, '#!/bin/sh\nshift 5\nexec "$@"\n')
    agent = session(tmp_path, FakeTransport(user="ops"), sudo_password=lambda: "unused")
    agent.open()
    assert agent.call("marks")["lock"] is None
    agent.close()


def test_a_wrong_sudo_password_is_tried_once_and_fails_at_once(tmp_path: Path, sudo: Path) -> None:
    program(sudo, SUDO.format(password="right"))
    transport = FakeTransport(user="ops")
    began = time.monotonic()
    with pytest.raises(NodeUnsuitable, match="may not become root"):
        session(tmp_path, transport, sudo_password=lambda: "wrong").open()
    assert time.monotonic() - began < 5
    assert transport.bytes_sent == len("wrong\n")


def test_sudo_that_asks_without_a_password_to_give_fails_with_the_fix(tmp_path: Path, sudo: Path) -> None:
    program(sudo, SUDO.format(password="right"))
    with pytest.raises(NodeUnsuitable, match="may not become root") as caught:
        session(tmp_path, FakeTransport(user="ops")).open()
    assert "sudo" in caught.value.fix


LOGIN_SHELLS = [
    name
    for name in ("sh", "bash", "dash", "zsh", "fish", "csh", "tcsh", "ksh", "busybox")
    if shutil.which(name)
]


@pytest.mark.parametrize("shell", LOGIN_SHELLS)
def test_any_login_shell_passes_the_command_on(tmp_path: Path, shell: str) -> None:
    found = shutil.which(shell)
    assert found is not None
    argv = [found, "sh"] if shell == "busybox" else [found]

    class Through(FakeTransport):
        def execute(self, command: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - as its parent
            (tmp_path / "command").write_text(command)
            return super().execute(f'exec {" ".join(argv)} -c "$(cat {tmp_path}/command)"')

    agent = session(tmp_path, Through())
    agent.open()
    agent.close()


def test_an_ordinary_user_needs_sudo_on_his_own_machine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert LocalTransport().user != "root"
