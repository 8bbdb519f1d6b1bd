"""What paramiko, fabric and the operating system raise, in our words."""

from __future__ import annotations

import errno
import socket

from hetctl.errors import HostKeyChanged, LoginRefused, NodeUnreachable, SessionLost, TransportError

LOGIN_FIX = "check the user, the key and the node's authorized_keys; `ssh -v {target}` shows what is tried"


def translate(error: BaseException, target: str, *, stage: str, opened: bool = False) -> TransportError:
    """Return the error of ours that says what another one means.

    Arguments:
        error: What was raised.
        target: The node's end, such as `root@10.0.0.5`.
        stage: What was being done, such as `connecting`.
        opened: The connection had been established, so it is lost rather than unreachable.
    """
    import paramiko.ssh_exception as raised  # noqa: PLC0415 - paramiko loads slowly and only SSH needs it

    if isinstance(error, TransportError):
        return error
    why = str(error) or type(error).__name__
    if isinstance(error, raised.BadHostKeyException):
        return HostKeyChanged(
            f"{target} shows another host key than the one on record", where=target, why=why
        )
    if isinstance(error, raised.PasswordRequiredException):
        return LoginRefused(
            f"the key for {target} is protected by a passphrase",
            where=target,
            why=why,
            fix="add it to the agent: `ssh-add FILE`",
        )
    if isinstance(error, raised.BadAuthenticationType):
        why = f"the node accepts only: {', '.join(error.allowed_types)}"
    if isinstance(error, raised.AuthenticationException):
        return LoginRefused(
            f"{target} refuses the login", where=target, why=why, fix=LOGIN_FIX.format(target=target)
        )
    if opened:
        return SessionLost(f"the connection to {target} broke", where=target, why=why)
    return _unreachable(error, target, stage, why)


def _unreachable(error: BaseException, target: str, stage: str, why: str) -> NodeUnreachable:
    import paramiko.ssh_exception as raised  # noqa: PLC0415 - as above

    what, fix = (
        f"{target} could not be reached while {stage}",
        "check that the node is up and runs an SSH server",
    )
    if isinstance(error, raised.CouldNotCanonicalize | raised.ConfigParseError):
        what, fix = f"the SSH configuration for {target} cannot be used", "mend ~/.ssh/config"
    elif isinstance(error, raised.IncompatiblePeer):
        what, fix = f"{target} and this machine share no SSH algorithm", "update the node's SSH server"
    elif isinstance(error, raised.ProxyCommandFailure):
        what, fix = f"the proxy command for {target} failed", "run the ProxyCommand of ~/.ssh/config by hand"
    elif isinstance(error, raised.ChannelException):
        what = f"{target} refuses another channel"
        fix = "check AllowTcpForwarding on a jump host and MaxSessions on the node"
    elif isinstance(error, socket.gaierror):
        what, fix = f"the name of {target} is not known", "check the address, or the name server"
    elif isinstance(error, ConnectionRefusedError):
        what = f"{target} refuses the connection"
    elif isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        what, fix = f"there is no route to {target}", "check cable, address and routes"
    elif isinstance(error, TimeoutError):
        what = f"{target} did not answer in time while {stage}"
    return NodeUnreachable(what, where=target, why=why, fix=fix)


def causes() -> tuple[type[BaseException], ...]:
    """Return everything that fabric and paramiko raise when a connection or a login fails."""
    import binascii  # noqa: PLC0415 - as above

    import paramiko.hostkeys  # noqa: PLC0415 - as above
    import paramiko.pkey  # noqa: PLC0415 - as above
    import paramiko.ssh_exception as raised  # noqa: PLC0415 - as above

    parsers = (paramiko.hostkeys.InvalidHostKey, paramiko.pkey.UnknownKeyType, binascii.Error, ValueError)
    return (raised.SSHException, OSError, EOFError, *parsers)
