"""The way to each node: what a session is opened through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hetctl.manifest.cluster import Cluster
from hetctl.manifest.nodes import Ssh
from hetctl.manifest.references import ResolvedNode, default_ssh
from hetctl.resources.identity import Recorded
from hetctl.resources.provider import Access, Target
from hetctl.transport.base import Session, Transport
from hetctl.transport.local import LocalTransport
from hetctl.transport.session import AgentSession
from hetctl.transport.ssh import SSHTransport


def declared_target(node: ResolvedNode, access: Access) -> Target:
    """Return the way to a declared node."""
    return _target(node.name, node.address, node.ssh, access, local=node.local)


def recorded_target(
    name: str, item: Recorded, cluster: Cluster, nodes: Mapping[str, ResolvedNode], access: Access
) -> Target:
    """Return the way to a machine that is only on record.

    Arguments:
        name: What the plan calls it.
        item: What the record says of it.
        cluster: How to log in where the record does not say.
        nodes: The declared nodes: one of its name is logged in to with the same key.
        access: How nodes may be reached.
    """
    usual, node = default_ssh(cluster), nodes.get(item.called)
    ssh = Ssh(
        user=item.user or usual.user,
        port=item.port or usual.port,
        identity=node.ssh.identity if node is not None else usual.identity,
    )
    return _target(name, item.address, ssh, access, local=item.local)


def _target(name: str, address: str, ssh: Ssh, access: Access, *, local: bool) -> Target:
    destination = "local" if local else f"{ssh.user or 'root'}@{address}"

    def open_session(write: bool) -> Session:
        transport: Transport = LocalTransport() if local else _ssh(name, address, ssh, access)
        session = AgentSession(name, transport, read_only=not write)
        session.open()
        return session

    return Target(node=name, destination=destination, open=open_session)


def _ssh(name: str, address: str, ssh: Ssh, access: Access) -> SSHTransport:
    confirm = access.confirm_host_key
    on_new_key: Callable[..., bool] | None = None
    if confirm is not None:

        def on_new_key(*key: Any) -> bool:
            return confirm(name, " ".join(str(part) for part in key))

    return SSHTransport(
        address,
        ssh.user or "root",
        ssh.port,
        identity_files=[Path(ssh.identity)] if ssh.identity else [],
        accept_new=access.accept_new_host_keys,
        on_new_key=on_new_key,
    )
