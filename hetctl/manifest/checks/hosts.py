"""Nodes, virtual machines and their devices: names, addresses, cards."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from hetctl.manifest.draft import Draft
from hetctl.manifest.nodes import Gpu, Host, Node
from hetctl.manifest.references import HEAD_CPU, is_ip
from hetctl.manifest.source import KeyPath
from hetctl.manifest.wording import listed, named, quoted

_HOST_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?"
)
HIDDEN: Final = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - named to be refused
"""What ProtectHome= and PrivateTmp= of systemd take from a service."""

LOCAL_BUILD: Final = "local"
"""What `builds.X.on` calls the machine that hetctl runs on, so no node may have this name."""


def check_hosts(draft: Draft) -> None:
    """Check every machine by itself, then that no two are the same one."""
    seen: dict[tuple[str, int], str] = {}
    for name, host in draft.hosts.items():
        path = ("nodes" if name in draft.cluster.nodes else "vms", name)
        if name in draft.cluster.nodes and name in draft.cluster.vms:
            draft.problems.add(
                "E201", f"{quoted(name)} is both a node and a VM", ("vms", name), hint="rename one", key=True
            )
        if name == LOCAL_BUILD:
            draft.problems.add("E227", "a node cannot be called 'local'", path, hint="rename it", key=True)
        _check_addresses(draft, path, host)
        _check_paths(draft, path, host)
        _check_device_names(draft, path, host)
        if isinstance(host, Node):
            _check_cards(draft, path, host)
        _check_twin(draft, path, host, seen)


def _check_paths(draft: Draft, path: KeyPath, host: Host) -> None:
    """Check that services can see what they run from: their sandbox hides the homes and /tmp."""
    for key, place in (("builds", host.paths.builds), ("models", host.paths.models)):
        hidden = next((top for top in HIDDEN if place == top or place.startswith(f"{top}/")), None)
        if hidden is not None:
            draft.problems.add(
                "E235",
                f"services cannot see {hidden}, so {key} cannot lie in {quoted(place)}",
                (*path, "paths", key),
                hint="use a directory elsewhere, such as /srv",
            )


def check_address(draft: Draft, text: str, path: KeyPath, what: str) -> bool:
    """Return whether `text` is an IP address that a process can listen on, after reporting when it is not."""
    if not is_ip(text):
        draft.problems.add(
            "E219", f"{what} must be an IP address, not {quoted(text)}", path, hint="no names here"
        )
        return False
    if ipaddress.ip_address(text).is_multicast:
        draft.problems.add(
            "E219",
            f"{what} cannot be the multicast address {text}",
            path,
            hint="use an address of the machine",
        )
        return False
    return True


def _check_addresses(draft: Draft, path: KeyPath, host: Host) -> None:
    if isinstance(host, Node) and host.managed and host.address is None and host.connection != "local":
        hint = "add `address: …`, or `connection: local` for this machine"
        draft.problems.add("E221", f"{_called(path)} has no address", path, hint=hint, key=True)
    if host.address is not None and not is_ip(host.address):
        _check_host_name(draft, host.address, (*path, "address"))
    if host.rpc_address is not None:
        where = (*path, "rpcAddress")
        if not is_ip(host.rpc_address, 4):
            hint = "llama.cpp's RPC speaks only IPv4 and takes no names"
            draft.problems.add(
                "E219",
                f"rpcAddress must be an IPv4 address, not {quoted(host.rpc_address)}",
                where,
                hint=hint,
            )
        elif ipaddress.ip_address(host.rpc_address).is_unspecified or not check_address(
            draft, host.rpc_address, where, "rpcAddress"
        ):
            draft.problems.add(
                "E219", f"rpcAddress cannot be {host.rpc_address}: others connect to it", where,
                hint="use an address of the machine",
            )  # fmt: skip


def _check_host_name(draft: Draft, text: str, path: KeyPath) -> None:
    if _HOST_NAME.fullmatch(text) and not re.fullmatch(r"[0-9.]+", text):
        return
    hint = "write a host name or an IP address"
    if "@" in text:
        hint = "the login name goes into `ssh: {user: …}`"
    elif re.search(r":[0-9]+\Z", text):
        hint = "the port goes into `ssh: {port: …}`"
    draft.problems.add("E219", f"{quoted(text)} is not an address", path, hint=hint)


def _check_device_names(draft: Draft, path: KeyPath, host: Host) -> None:
    gpus = host.gpus if isinstance(host, Node) else {}
    for section, names in (("gpus", gpus), ("cpuWorkers", host.cpu_workers)):
        for name in names:
            where = (*path, section, name)
            if name == HEAD_CPU:
                hint = f"rename it: {path[1]}/cpu is the head's own CPU"
                draft.problems.add("E227", "a device cannot be called 'cpu'", where, hint=hint, key=True)
            if section == "cpuWorkers" and name in gpus:
                message = f"{_called(path)} has a card and a CPU worker called {quoted(name)}"
                draft.problems.add("E201", message, where, hint="rename one", key=True)


def _check_cards(draft: Draft, path: KeyPath, node: Node) -> None:
    """Check that each declaration means one card and no two mean the same."""
    seen: dict[tuple[object, ...], str] = {}
    for name, gpu in node.gpus.items():
        where = (*path, "gpus", name, "match")
        match = gpu.match
        if (match.nth is None) != (match.of is None) or (match.nth is not None and match.model is None):
            draft.problems.add(
                "E229",
                "`nth` and `of` go together, and with `model`",
                where,
                hint="say {model: …, nth: 1, of: 2}",
            )
        elif match.nth is not None and match.of is not None and match.nth > match.of:
            draft.problems.add(
                "E229", f"there is no card {match.nth} of {match.of}", where, hint="nth counts from 1 to `of`"
            )
        for identity in _identities(gpu):
            if identity in seen:
                draft.problems.add(
                    "E229", f"cards {quoted(seen[identity])} and {quoted(name)} are the same one", where,
                    hint="tell them apart by uuid, pci, memory, or nth and of",
                )  # fmt: skip
                break
        for identity in _identities(gpu):
            seen.setdefault(identity, name)


def _identities(gpu: Gpu) -> list[tuple[object, ...]]:
    match = gpu.match
    if match.model is not None:
        return [("model", match.model.lower(), gpu.memory, match.nth)]
    return [("uuid", match.uuid.lower())] if match.uuid is not None else [("pci", match.pci)]


def _check_twin(draft: Draft, path: KeyPath, host: Host, seen: dict[tuple[str, int], str]) -> None:
    name = str(path[1])
    local = isinstance(host, Node) and host.connection == "local"
    if not local and host.address is None:
        return
    identity = ("", 0) if local else (str(host.address).lower(), draft.cluster.ssh_of(name).port or 22)
    if identity in seen:
        pair = listed([quoted(seen[identity]), quoted(name)], word="and")
        draft.problems.add(
            "E220",
            f"{pair} are the same machine",
            path,
            hint="declare it once, with all its devices",
            key=True,
        )
    seen.setdefault(identity, name)


def _called(path: KeyPath) -> str:
    return named("node" if path[0] == "nodes" else "VM", str(path[1]))
