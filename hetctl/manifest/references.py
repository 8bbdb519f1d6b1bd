"""What the names in a manifest refer to, with defaults filled in."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

from hetctl.errors import ManifestInvalid
from hetctl.manifest.cluster import Cluster
from hetctl.manifest.draft import Draft
from hetctl.manifest.lookup import find, find_build, find_devices, find_host
from hetctl.manifest.nodes import Host, Node, Ssh
from hetctl.manifest.placements import Placement
from hetctl.manifest.problem_list import ProblemList, arranged
from hetctl.manifest.resolved import (
    HEAD_CPU,
    DeviceKind,
    DeviceRef,
    Resolved,
    ResolvedNode,
    ResolvedPlacement,
    devices_of,
)
from hetctl.manifest.secrets import SecretRef
from hetctl.manifest.source import KeyPath

__all__ = [
    "HEAD_CPU",
    "LOOPBACK",
    "DeviceKind",
    "DeviceRef",
    "Resolved",
    "ResolvedNode",
    "ResolvedPlacement",
    "default_ssh",
    "is_ip",
    "local_path",
    "resolve",
    "resolve_draft",
]

LOOPBACK = "127.0.0.1"


def resolve(cluster: Cluster) -> Resolved:
    """Look up every reference of a cluster that `load` accepted.

    Raises:
        ManifestInvalid: A name refers to nothing; not for a cluster made by `load`.
    """
    draft = Draft(cluster, frozenset(), ProblemList(cluster.source))
    resolved = resolve_draft(draft)
    if draft.problems.found:
        raise ManifestInvalid(arranged(draft.problems.found, cluster.source.digests))
    return resolved


def resolve_draft(draft: Draft) -> Resolved:
    """Look up every reference; placements with one that leads nowhere are reported and left out."""
    cluster = draft.cluster
    known = {ref.text: ref for host in draft.hosts for ref in devices_of(cluster, host).values()}
    placements = {
        name: _placement(draft, name, placement, known) for name, placement in cluster.placements.items()
    }
    return Resolved(
        cluster=cluster,
        nodes={name: _node(cluster, name, host) for name, host in draft.hosts.items()},
        placements={name: found for name, found in placements.items() if found is not None},
        models={
            name: local_path(cluster, ("models", name), model.source[0])
            for name, model in cluster.models.items()
        },
        archives={
            name: local_path(cluster, ("builds", name), build.source[0].archive)
            for name, build in cluster.builds.items()
            if build.source[0].archive is not None
        },
    )


def _node(cluster: Cluster, name: str, host: Host) -> ResolvedNode:
    local = isinstance(host, Node) and host.connection == "local"
    address = host.address or ""
    fallback = address if is_ip(address, 4) else LOOPBACK if local else None
    return ResolvedNode(
        name=name,
        local=local,
        address=address,
        rpc_address=host.rpc_address or fallback,
        ssh=_with_identity(cluster, name),
        paths=host.paths,
        env=host.env,
        vm=not isinstance(host, Node),
    )


def _with_identity(cluster: Cluster, name: str) -> Ssh:
    """Return how to log in, the key file's path made independent of the working directory."""
    ssh = cluster.ssh_of(name)
    if ssh.identity is None:
        return ssh
    section = "nodes" if name in cluster.nodes else "vms"
    own = cluster.host(name).ssh.identity is not None
    path = (section, name, "ssh", "identity") if own else ("ssh", "identity")
    return ssh.model_copy(update={"identity": str(local_path(cluster, path, ssh.identity))})


def default_ssh(cluster: Cluster) -> Ssh:
    """Return how to log in to a machine that the manifest does not name."""
    ssh = cluster.ssh
    if ssh.identity is None:
        return ssh
    identity = str(local_path(cluster, ("ssh", "identity"), ssh.identity))
    return ssh.model_copy(update={"identity": identity})


def _with_file(cluster: Cluster, path: KeyPath, secret: SecretRef) -> SecretRef:
    """Return a secret's reference, its file's path made independent of the working directory."""
    if secret.file is None:
        return secret
    return secret.model_copy(update={"file": str(local_path(cluster, (*path, "file"), secret.file))})


def _placement(
    draft: Draft, name: str, placement: Placement, known: Mapping[str, DeviceRef]
) -> ResolvedPlacement | None:
    """Return a placement with everything looked up, or None after reporting what leads nowhere."""
    path = ("placements", name)
    before = len(draft.problems.found)
    build = find_build(draft, path, placement)
    model = find(draft, "models", placement.model, "E207", (*path, "model"))
    devices = find_devices(draft, path, placement, known)
    head = placement.server.node or (devices[0].node if devices else None)
    if placement.server.node is not None:
        head = find_host(draft, placement.server.node, (*path, "server", "node"))
    if placement.replaces is not None and placement.replaces.node is not None:
        find_host(draft, placement.replaces.node, (*path, "replaces", "node"))
    if len(draft.problems.found) > before or not (build and model and devices and head):
        return None
    node = _node(draft.cluster, head, draft.hosts[head])
    declared = draft.cluster.models[model].alias
    return ResolvedPlacement(
        name=name,
        placement=placement,
        devices=devices,
        head=head,
        build=build,
        model=model,
        listen=placement.server.listen or _default_listen(node),
        port=placement.server.port,
        alias=placement.alias or declared or name,
        api_keys={
            owner: _with_file(draft.cluster, (*path, "server", "apiKeys", owner), secret)
            for owner, secret in placement.server.api_keys.items()
        },
    )


def _default_listen(node: ResolvedNode) -> tuple[str, ...]:
    if is_ip(node.address):
        return (node.address,)
    return (LOOPBACK,) if node.local else ()


def local_path(cluster: Cluster, path: KeyPath, text: str) -> Path:
    """Return the file on the operator's machine that `text`, written at `path`, names."""
    return cluster.source.directory(path) / os.path.expanduser(text)  # noqa: PTH111 - never raises


def is_ip(text: str, version: int | None = None) -> bool:
    """Return whether `text` is an IP address (of this version)."""
    try:
        return version in (None, ipaddress.ip_address(text).version)
    except ValueError:
        return False
