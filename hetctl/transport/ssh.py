"""Nodes over SSH: fabric reads the configuration and builds the chain of jumps, paramiko carries the bytes.

Three things are ours: host keys are strict, every wait has a deadline, and TCP_NODELAY is set (neither
library does, and it makes a command on a LAN twelve times faster).
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetctl.errors import HostKeyChanged, HostKeyUnknown, NodeUnreachable, SessionLost, TransportError
from hetctl.transport.known_hosts import DEFAULT_PORT, HostKey, lookup, record
from hetctl.transport.sockets import ConnectDeadline, connect_socket
from hetctl.transport.ssh_channel import PACKET, SSHChannel
from hetctl.transport.ssh_errors import causes, translate

if TYPE_CHECKING:
    import paramiko

NewKeyHandler = Callable[[str, HostKey], bool]
"""Called with the host's name and the key it shows; returns whether to trust and record it."""

KEEPALIVE_SECONDS = 15
WINDOW = 16 << 20
STARTS_PER_JUMP = 8
"""Logins at once through one jump host: sshd drops some from the tenth on (MaxStartups 10:30:100)."""

_asking = threading.Lock()
_jump_starts: defaultdict[str, threading.BoundedSemaphore] = defaultdict(
    lambda: threading.BoundedSemaphore(STARTS_PER_JUMP)
)


class SSHTransport:
    """Runs commands on a node over one SSH connection.

    Arguments:
        host: Name or address, or a `Host` of the SSH configuration.
        user: Login; None for what the configuration says, else the local user.
        port: None for what the configuration says, else 22.
        identity_files: Private keys tried first.
        known_hosts: File with host keys; None for `UserKnownHostsFile`, else `~/.ssh/known_hosts`; the
            system's file is read as well unless one is given. New keys are added to the first.
        config_file: SSH configuration; None for `~/.ssh/config`.
        connect_deadline: Seconds until a login must be complete, host key question excluded.
        accept_new: Trust and record a key of a host that has none on record.
        on_new_key: Asks whether to trust such a key; None means no.
    """

    def __init__(
        self,
        host: str,
        user: str | None = None,
        port: int | None = None,
        *,
        identity_files: Sequence[Path] = (),
        known_hosts: Path | None = None,
        config_file: Path | None = None,
        connect_deadline: float = 10.0,
        accept_new: bool = False,
        on_new_key: NewKeyHandler | None = None,
    ) -> None:
        self._host = host
        self._user = user
        self._port = port
        self._identity_files = tuple(identity_files)
        self._known_hosts = known_hosts
        self._config_file = config_file
        self._deadline = connect_deadline
        self._accept_new = accept_new
        self._on_new_key = on_new_key
        self._connection: Any = None
        self._peer_address = ""
        self._stage = "reading the SSH configuration"
        self._watch: ConnectDeadline | None = None

    @property
    def target(self) -> str:
        """Such as `root@10.0.0.5` or `root@10.0.0.5:2222`."""
        user = f"{self._user}@" if self._user else ""
        return f"{user}{self._host}" + (f":{self._port}" if self._port not in (None, 22) else "")

    @property
    def user(self) -> str:
        """The login, known once connected when it comes from the configuration."""
        return self._connection.user if self._connection else self._user or ""

    @property
    def peer_address(self) -> str:
        """The node's address; behind a jump host the one the jump host was told."""
        return self._peer_address

    def open(self) -> None:
        """Connect, check the host key and log in, all within the connect deadline."""
        logging.getLogger("paramiko").addHandler(logging.NullHandler())  # errors are raised, not printed
        self._watch = watch = ConnectDeadline(self._deadline)
        try:
            self._connection = self._build()
            chain = self._chain()
            with contextlib.ExitStack() as stack:
                if len(chain) > 1:
                    stack.enter_context(_jump_starts[str(chain[-1].host)])
                watch.start()
                self._connect(chain, watch)
        except causes() as error:
            self.close()
            if watch.expired and not isinstance(error, TransportError):
                raise NodeUnreachable(
                    f"{self.target} did not answer in time while {self._stage}",
                    where=self.target,
                    why=f"the connect deadline of {self._deadline:g} s passed",
                    fix="check that the node is up; a frozen one still accepts connections",
                ) from error
            raise translate(error, self.target, stage=self._stage) from error
        except BaseException:
            self.close()
            raise
        finally:
            watch.stop()

    def _build(self) -> Any:
        """Return the fabric connection, its jumps included, all made strict."""
        import fabric  # noqa: PLC0415 - loads slowly, and commands that touch no node must start fast

        config = fabric.Config(runtime_ssh_path=str(self._config_file) if self._config_file else None)
        return fabric.Connection(
            self._host,
            user=self._user,
            port=self._port,
            config=config,
            connect_timeout=max(1, math.ceil(self._deadline)),
        )

    def _chain(self) -> list[Any]:
        """Return the connection and its jump hosts, the outermost last, each with our rules."""
        chain = [self._connection]
        while chain[-1].gateway is not None and not isinstance(chain[-1].gateway, str):
            chain.append(chain[-1].gateway)
        for link in chain:
            known = self._known_hosts_files(link)
            policy = _StrictPolicy(self, link, known)
            link.client.set_missing_host_key_policy(policy)
            only = link.ssh_config.get("identitiesonly", "no") == "yes"
            keys = [str(path) for path in self._identity_files] + link.ssh_config.get("identityfile", [])
            link.connect_timeout = max(1, math.ceil(self._deadline))
            link.connect_kwargs = {
                "key_filename": keys,
                "banner_timeout": self._deadline,
                "auth_timeout": self._deadline,
                "channel_timeout": self._deadline,
                "allow_agent": not only,
                "look_for_keys": not only and not keys,
                "transport_factory": policy.make_transport,
            }
        return chain

    def _known_hosts_files(self, link: Any) -> list[Path]:
        if self._known_hosts is not None:
            return [self._known_hosts]
        users = link.ssh_config.get("userknownhostsfile", "~/.ssh/known_hosts")
        return [*(Path(name).expanduser() for name in users.split()), Path("/etc/ssh/ssh_known_hosts")]

    def _connect(self, chain: list[Any], watch: ConnectDeadline) -> None:
        outermost = chain[-1]
        if outermost.gateway is None:
            self._stage = "connecting"
            connected = connect_socket(str(outermost.host), int(outermost.port), watch)
            watch.add(lambda: connected.shutdown(socket.SHUT_RDWR))
            outermost.connect_kwargs["sock"] = connected
            self._peer_address = str(connected.getpeername()[0])
        if len(chain) > 1 or outermost.gateway is not None:
            self._peer_address = str(self._connection.host)
        for link in reversed(chain):
            self._stage = "greeting" if link is self._connection else f"greeting the jump host {link.host}"
            link.open()
            link.transport.set_keepalive(KEEPALIVE_SECONDS)

    def host_key_seen(self, link: Any, key: HostKey, files: list[Path]) -> None:
        """Check the key a host shows; called by paramiko between greeting and login.

        Raises:
            HostKeyUnknown: It has no key on record and nobody accepts this one.
            HostKeyChanged: It has another key on record.
        """
        host, port = name_on_record(link)
        known = lookup(files, host, port)
        if any(entry.key == key and entry.revoked for entry in known):
            raise HostKeyChanged(f"the host key of {host} is revoked", where=self.target, why=key.fingerprint)
        valid = [entry for entry in known if not entry.revoked]
        if not any(entry.key == key for entry in valid):
            if valid:
                raise _changed(self.target, host, key, valid[0].file, valid[0].line)
            self._first_contact(host, port, key, files[0])
        self._stage = "logging in"

    def _first_contact(self, host: str, port: int, key: HostKey, file: Path) -> None:
        with _asking:
            if not self._accept_new:
                if self._watch is not None:
                    self._watch.pause()
                accepted = self._on_new_key is not None and self._on_new_key(host, key)
                if self._watch is not None:
                    self._watch.start()
                if not accepted:
                    raise HostKeyUnknown(
                        f"the host key of {host} is not known",
                        where=self.target,
                        why=f"it shows {key}",
                        fix="compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the node, "
                        f"then connect once with `ssh {self.target}`, or pass --accept-new-host-keys",
                    )
            try:
                record(file, host, port, key)
            except OSError as error:
                raise HostKeyUnknown(
                    f"the host key of {host} cannot be recorded", where=self.target, why=str(error)
                ) from error

    def execute(self, command: str) -> SSHChannel:
        """Start a shell command on a channel of its own."""
        if self._connection is None or self._connection.transport is None:
            raise SessionLost("not connected", where=self.target)
        try:
            channel = self._connection.transport.open_session(
                window_size=WINDOW, max_packet_size=PACKET, timeout=self._deadline
            )
            channel.settimeout(self._deadline)
            channel.exec_command(command)
        except causes() as error:
            raise translate(error, self.target, stage="starting a command") from error
        return SSHChannel(channel, self.target)

    def close(self) -> None:
        """Disconnect, jump hosts included."""
        link, self._connection = self._connection, None
        while link is not None and not isinstance(link, str):
            link.client.close()
            link = link.gateway


class _StrictPolicy:
    """Takes every host key decision: paramiko is given no known hosts of its own.

    Arguments:
        owner: Decides.
        link: The connection the host stands at the end of.
        files: known_hosts files.
    """

    def __init__(self, owner: SSHTransport, link: Any, files: list[Path]) -> None:
        self._owner = owner
        self._link = link
        self._files = files

    def missing_host_key(self, _client: Any, _name: str, key: paramiko.PKey) -> None:
        """Check a key (paramiko's policy protocol)."""
        self._owner.host_key_seen(self._link, HostKey(key.get_name(), key.get_base64()), self._files)

    def make_transport(self, connected: Any, *, disabled_algorithms: Any = None) -> paramiko.Transport:
        """Return a paramiko transport that asks for the key types on record first, as ssh does."""
        import paramiko  # noqa: PLC0415 - loads slowly

        transport = paramiko.Transport(
            connected, default_window_size=WINDOW, disabled_algorithms=disabled_algorithms
        )
        known = lookup(self._files, *name_on_record(self._link))
        types = {name for entry in known for name in _algorithms(entry.key.type)}
        options = transport.get_security_options()
        options.key_types = sorted(options.key_types, key=lambda name: name not in types)
        return transport


def name_on_record(link: Any) -> tuple[str, int]:
    """Return the name and port under which known_hosts has a host: HostKeyAlias stands for both."""
    alias = link.ssh_config.get("hostkeyalias")
    return (str(alias), DEFAULT_PORT) if alias else (str(link.host), int(link.port))


def _algorithms(key_type: str) -> tuple[str, ...]:
    """Return the signature algorithms of a key type: RSA keys sign with SHA-2 today."""
    return ("rsa-sha2-512", "rsa-sha2-256") if key_type == "ssh-rsa" else (key_type,)


def _changed(target: str, host: str, key: HostKey, file: Path, line: int) -> HostKeyChanged:
    return HostKeyChanged(
        f"the host key of {host} is not the one on record",
        where=target,
        why=f"it shows {key}; {file}:{line} has another one. The node was installed "
        "anew, or somebody stands in between",
        fix=f"if you know why it changed: `ssh-keygen -R '{host}' -f {file}`",
    )
