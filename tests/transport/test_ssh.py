"""The SSH transport against a real sshd on loopback."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hetctl.errors import (
    HostKeyChanged,
    HostKeyUnknown,
    LoginRefused,
    NodeUnreachable,
    SessionLost,
    TransportError,
)
from hetctl.transport.known_hosts import HostKey
from hetctl.transport.ssh import SSHTransport
from hetctl.transport.ssh_channel import SSHChannel

if TYPE_CHECKING:
    from tests.transport.conftest import Server


@contextmanager
def opened(transport: SSHTransport) -> Iterator[SSHTransport]:
    transport.open()
    try:
        yield transport
    finally:
        transport.close()


def output(transport: SSHTransport, command: str, given: bytes = b"") -> tuple[int, bytes, str]:
    channel = transport.execute(command)
    channel.send(given)
    channel.close_input()
    out = b""
    while block := channel.receive(1 << 16, deadline=10):
        out += block
    status = channel.exit_status(deadline=10)
    said = channel.errors()
    channel.close()
    channel.close()
    return status, out, said


def public_key(server: Server, kind: str) -> HostKey:
    name, blob, *_ = (server.directory / f"host_{kind}.pub").read_text().split()
    return HostKey(name, blob)


def know(server: Server, *keys: HostKey, marker: str = "") -> None:
    lines = [f"{marker}[127.0.0.1]:{server.port} {key.type} {key.blob}\n" for key in keys]
    server.known_hosts.write_text("".join(lines))


def test_a_command_gets_input_and_gives_output_complaints_and_status(sshd: Server) -> None:
    with opened(sshd.transport()) as transport:
        status, out, said = output(transport, "cat; echo no >&2; exit 7", b"hello\0world")
    assert (status, out) == (7, b"hello\0world")
    assert "no" in said


def test_a_command_killed_by_a_signal_has_no_status(sshd: Server) -> None:
    with opened(sshd.transport()) as transport:
        assert output(transport, "kill -KILL $$")[0] != 0


def test_nagle_is_off_and_a_dead_peer_is_noticed(sshd: Server) -> None:
    with opened(sshd.transport()) as transport:
        link = transport._connection.transport.sock
        assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
        assert transport.peer_address == "127.0.0.1"


def test_commands_run_side_by_side_on_one_connection(sshd: Server) -> None:
    found: dict[int, bytes] = {}
    with opened(sshd.transport()) as transport:

        def ask(number: int) -> None:
            found[number] = output(transport, "cat", str(number).encode())[1]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert found == {number: str(number).encode() for number in range(8)}


def test_an_unknown_key_is_refused_with_its_fingerprint(other_sshd: Server) -> None:
    other_sshd.known_hosts.unlink()
    with pytest.raises(HostKeyUnknown) as caught:
        other_sshd.transport().open()
    assert public_key(other_sshd, "ed25519").fingerprint in caught.value.why
    assert "--accept-new-host-keys" in caught.value.fix
    assert not other_sshd.known_hosts.exists()


def test_a_new_key_can_be_accepted_and_is_then_on_record(other_sshd: Server) -> None:
    other_sshd.known_hosts.unlink()
    with opened(other_sshd.transport(accept_new=True)):
        pass
    with opened(other_sshd.transport()):
        pass


def test_a_person_can_be_asked_about_a_new_key_and_may_take_longer_than_the_deadline(
    other_sshd: Server,
) -> None:
    other_sshd.known_hosts.unlink()
    asked: list[tuple[str, HostKey]] = []

    def ask(host: str, key: HostKey) -> bool:
        asked.append((host, key))
        time.sleep(1.5)  # the person reads; longer than the deadline on purpose
        return len(asked) > 1

    with pytest.raises(HostKeyUnknown):
        other_sshd.transport(on_new_key=ask, connect_deadline=1.2).open()
    with opened(other_sshd.transport(on_new_key=ask, connect_deadline=1.2)):
        pass
    assert asked[0] == ("127.0.0.1", public_key(other_sshd, "ed25519"))
    assert "ssh-ed25519" in other_sshd.known_hosts.read_text()


@pytest.mark.parametrize("accept", [True, False])
def test_a_changed_key_is_refused_even_when_new_ones_are_accepted(other_sshd: Server, accept: bool) -> None:
    know(other_sshd, HostKey("ssh-ed25519", public_key(other_sshd, "rsa").blob))
    with pytest.raises(HostKeyChanged) as caught:
        other_sshd.transport(accept_new=accept).open()
    assert str(other_sshd.known_hosts) in caught.value.why
    assert "ssh-keygen -R" in caught.value.fix


def test_a_key_of_another_type_on_record_is_a_change_and_no_first_contact(other_sshd: Server) -> None:
    know(other_sshd, HostKey("ecdsa-sha2-nistp256", public_key(other_sshd, "ed25519").blob))
    with pytest.raises(HostKeyChanged):
        other_sshd.transport(accept_new=True).open()


def test_the_key_type_on_record_is_asked_for_first(other_sshd: Server) -> None:
    know(other_sshd, public_key(other_sshd, "rsa"))
    with opened(other_sshd.transport()):
        pass


def test_a_revoked_key_is_refused(other_sshd: Server) -> None:
    know(other_sshd, public_key(other_sshd, "ed25519"), marker="@revoked ")
    with pytest.raises(HostKeyChanged, match="revoked"):
        other_sshd.transport(accept_new=True).open()


def test_a_wrong_key_is_a_refused_login(sshd: Server, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "wrong"], check=True)
    with pytest.raises(LoginRefused) as caught:
        sshd.transport(identity_files=[tmp_path / "wrong"]).open()
    assert "authorized_keys" in caught.value.fix


def test_a_key_with_a_passphrase_says_so(sshd: Server, tmp_path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "locked"], check=True
    )
    with pytest.raises(LoginRefused, match="passphrase") as caught:
        sshd.transport(identity_files=[tmp_path / "locked"]).open()
    assert "ssh-add" in caught.value.fix


def test_a_missing_key_file_is_an_error_of_ours(sshd: Server, tmp_path: Path) -> None:
    with pytest.raises(TransportError):
        sshd.transport(identity_files=[tmp_path / "none"]).open()


def test_a_closed_port_is_refused(sshd: Server) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(NodeUnreachable, match="refuses"):
            sshd.transport(port=unused.getsockname()[1]).open()


@contextmanager
def silent_server(greeting: bytes = b"") -> Iterator[int]:
    """Accept connections, say `greeting`, and nothing more: what a frozen host looks like."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                held.append(link)
                link.sendall(greeting)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        for link in held:
            link.close()


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-frozen\r\n"])
def test_a_frozen_host_fails_within_the_deadline(sshd: Server, greeting: bytes) -> None:
    with silent_server(greeting) as port:
        began = time.monotonic()
        with pytest.raises(NodeUnreachable) as caught:
            sshd.transport(port=port, connect_deadline=1.0).open()
        assert time.monotonic() - began < 5, "far below the libraries' own timeouts of 15 s and more"
    assert "in time" in caught.value.what
    assert "deadline" in caught.value.why


def test_something_that_is_no_ssh_server_is_unreachable(sshd: Server) -> None:
    with silent_server(b"HTTP/1.1 400 Bad Request\r\n" * 200) as port, pytest.raises(NodeUnreachable):
        sshd.transport(port=port, connect_deadline=2.0).open()


def test_a_name_server_that_does_not_answer_costs_no_more_than_the_deadline(
    monkeypatch: pytest.MonkeyPatch, sshd: Server
) -> None:
    release = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        release.wait(30)
        raise socket.gaierror("late")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began = time.monotonic()
    with pytest.raises(NodeUnreachable):
        SSHTransport("atlas.invalid", config_file=sshd.config_file, connect_deadline=0.5).open()
    assert time.monotonic() - began < 2.0
    release.set()


def test_an_unknown_name_says_so(monkeypatch: pytest.MonkeyPatch, sshd: Server) -> None:
    def fail(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(NodeUnreachable, match="not known"):
        SSHTransport("atlas.invalid", config_file=sshd.config_file).open()


def test_a_silent_command_hits_the_deadline_of_its_reader(sshd: Server) -> None:
    with opened(sshd.transport()) as transport:
        channel = transport.execute("exec sleep 60")
        began = time.monotonic()
        with pytest.raises(SessionLost):
            channel.receive(1, deadline=0.3)
        with pytest.raises(SessionLost):
            channel.exit_status(deadline=0.1)
        assert time.monotonic() - began < 3
        channel.close()


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def send_until_it_fails(channel: SSHChannel) -> None:
    for _ in range(100):
        channel.send(b"x")
        if not channel.receive(1, deadline=10):
            raise SessionLost("the stream ended")


def test_a_server_that_goes_away_is_a_lost_session(other_sshd: Server) -> None:
    with opened(other_sshd.transport()) as transport:
        channel = transport.execute("exec cat")
        for child in children_of(other_sshd.process.pid):
            os.kill(child, signal.SIGKILL)
        with pytest.raises(SessionLost):
            send_until_it_fails(channel)
        with pytest.raises(TransportError):
            transport.execute("true")


def test_the_configuration_names_host_port_user_and_key(sshd: Server, tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    config.write_text(
        f"Host atlas\n HostName 127.0.0.1\n Port {sshd.port}\n User {getpass.getuser()}\n"
        f" IdentityFile {sshd.identity}\n IdentitiesOnly yes\n UserKnownHostsFile {sshd.known_hosts}\n"
    )
    with opened(SSHTransport("atlas", config_file=config)) as transport:
        assert output(transport, "echo hi")[1] == b"hi\n"
        assert transport.user == getpass.getuser()


def test_a_host_key_alias_is_what_the_key_is_recorded_under(sshd: Server, tmp_path: Path) -> None:
    config, known = tmp_path / "ssh_config", tmp_path / "known"
    config.write_text(
        f"Host atlas\n HostName 127.0.0.1\n Port {sshd.port}\n IdentityFile {sshd.identity}\n"
        f" HostKeyAlias atlas-in-the-cellar\n UserKnownHostsFile {known}\n"
    )
    with opened(SSHTransport("atlas", getpass.getuser(), config_file=config, accept_new=True)):
        pass
    assert known.read_text().startswith("atlas-in-the-cellar ssh-ed25519 ")
    with opened(SSHTransport("atlas", getpass.getuser(), config_file=config)):
        pass


def test_a_configuration_that_cannot_be_parsed_is_an_error_of_ours(sshd: Server, tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    config.write_text("nonsense\n")
    with pytest.raises(NodeUnreachable, match="configuration"):
        sshd.transport(config_file=config).open()


def jump_config(sshd: Server, jump: Server, path: Path) -> Path:
    path.write_text(
        f"Host jump\n HostName 127.0.0.1\n Port {jump.port}\n User {getpass.getuser()}\n"
        f" IdentityFile {jump.identity}\n UserKnownHostsFile {jump.known_hosts}\n"
        f"Host inner\n HostName 127.0.0.1\n Port {sshd.port}\n User {getpass.getuser()}\n ProxyJump jump\n"
        f" IdentityFile {sshd.identity}\n UserKnownHostsFile {sshd.known_hosts}\n"
    )
    return path


def test_a_jump_host_is_gone_through(sshd: Server, other_sshd: Server, tmp_path: Path) -> None:
    config = jump_config(sshd, other_sshd, tmp_path / "ssh_config")
    with opened(SSHTransport("inner", config_file=config)) as transport:
        assert output(transport, "echo hi")[1] == b"hi\n"
        assert transport._connection.gateway.transport.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_key_of_a_jump_host_is_checked_too(sshd: Server, other_sshd: Server, tmp_path: Path) -> None:
    config = jump_config(sshd, other_sshd, tmp_path / "ssh_config")
    other_sshd.known_hosts.unlink()
    with pytest.raises(HostKeyUnknown):
        SSHTransport("inner", config_file=config).open()


def test_a_jump_host_that_refuses_to_forward_says_so(
    sshd: Server, other_sshd: Server, tmp_path: Path
) -> None:
    config = jump_config(sshd, other_sshd, tmp_path / "ssh_config")
    config.write_text(config.read_text().replace(f"Port {sshd.port}", "Port 1"))
    with pytest.raises(NodeUnreachable):
        SSHTransport("inner", config_file=config).open()


def test_target_names_the_end_as_a_person_would() -> None:
    assert SSHTransport("10.0.0.5", "root").target == "root@10.0.0.5"
    assert SSHTransport("atlas").target == "atlas"
    assert SSHTransport("atlas", "ops", 2222).target == "ops@atlas:2222"


def test_nothing_runs_before_open(sshd: Server) -> None:
    transport = sshd.transport()
    with pytest.raises(SessionLost):
        transport.execute("true")
    transport.close()
    transport.close()
