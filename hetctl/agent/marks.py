"""What a node remembers of its clusters: member records, marks, and the salt for fingerprints of secrets."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent.atomic import TEMPORARY, make_directories, replacing, write_all, write_json
from hetctl.agent.context import STATE
from hetctl.agent.directories import remove_made
from hetctl.agent.failures import Failure, bad_request
from hetctl.agent.removal import remove_empty, remove_path

if TYPE_CHECKING:
    from hetctl.agent.context import Context

CLUSTERS = f"{STATE}/clusters"
SALT = f"{STATE}/salt"
UNITS = "/etc/systemd/system"
SALT_BYTES = 32
SUFFIX = ".json"

_PLAIN = re.compile(r"[A-Za-z0-9_@+-]")


def quote(address: str) -> str:
    """Return a file name for an address; different addresses give different names."""
    return "".join(
        char if _PLAIN.match(char) else "".join(f"%{byte:02X}" for byte in char.encode()) for char in address
    )


def unquote(name: str) -> str:
    """Undo `quote`."""
    return re.sub(rb"%([0-9A-F]{2})", lambda match: bytes([int(match[1], 16)]), name.encode()).decode(
        errors="replace"
    )


def _cluster_path(context: Context, arguments: dict[str, Any]) -> str:
    name = arg.text(arguments, "cluster")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,100}", name):
        raise bad_request(f"not a cluster name: {name!r}")
    return context.path(f"{CLUSTERS}/{name}")


def _read(path: str) -> dict[str, Any]:
    """Return a stored object, or {"damaged": why}."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError) as error:
        return {"damaged": str(error)}
    return value if isinstance(value, dict) else {"damaged": "not an object"}


def _read_cluster(path: str) -> dict[str, Any]:
    members_path, marks_path = f"{path}/members.json", f"{path}/marks"
    found: dict[str, Any] = {
        "members": _read(members_path) if os.path.lexists(members_path) else None,
        "marks": {},
    }
    for name in sorted(os.listdir(marks_path)) if os.path.isdir(marks_path) else []:
        if name.endswith(SUFFIX) and not name.startswith("."):
            found["marks"][unquote(name[: -len(SUFFIX)])] = _read(f"{marks_path}/{name}")
    return found


def marks(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return every mark and member record on this node, and who holds the lock."""
    del arguments
    from hetctl.agent.locks import holder  # noqa: PLC0415 - locks and marks are otherwise independent

    top = context.path(CLUSTERS)
    names = sorted(os.listdir(top)) if os.path.isdir(top) else []
    clusters = {name: _read_cluster(f"{top}/{name}") for name in names if os.path.isdir(f"{top}/{name}")}
    return {"root": STATE, "clusters": clusters, "lock": holder(context)}


def write_mark(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Store the mark of one resource."""
    directory = f"{_cluster_path(context, arguments)}/marks"
    name, mark = quote(arg.text(arguments, "address")), arg.table(arguments, "mark")
    make_directories(directory)
    write_json(f"{directory}/{name}{SUFFIX}", mark)
    return {}


def remove_mark(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Forget the mark of one resource."""
    directory = f"{_cluster_path(context, arguments)}/marks"
    remove_path(f"{directory}/{quote(arg.text(arguments, 'address'))}{SUFFIX}")
    return {}


def write_members(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Store the member record of a cluster."""
    path = _cluster_path(context, arguments)
    make_directories(path)
    write_json(f"{path}/members.json", arg.table(arguments, "members"))
    return {}


def remove_cluster(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Forget a cluster; with the last one goes all that hetctl keeps on the node for itself.

    `last` names the one mark that may still be there: it goes together with the cluster.

    Returns:
        `left`: what still lies under the state directory because it is not ours to remove here.

    Raises:
        Failure: Marks are left, so something of the cluster still stands on the node.
    """
    path = _cluster_path(context, arguments)
    marks_path = f"{path}/marks"
    last = quote(arg.optional_text(arguments, "last") or "") + SUFFIX
    names = os.listdir(marks_path) if os.path.isdir(marks_path) else []
    if left := [name for name in names if name.endswith(SUFFIX) and name != last]:
        shown = ", ".join(sorted(unquote(name[: -len(SUFFIX)]) for name in left))
        raise Failure(f"the cluster still has marks on this node: {shown}")
    remove_path(path)
    top, state = context.path(CLUSTERS), context.path(STATE)
    if os.path.isdir(top) and os.listdir(top):
        return {"left": []}
    remove_path(context.path(SALT))
    for name in ("agent", "cache"):
        remove_path(f"{state}/{name}")
    for place in (state, context.path(UNITS)):
        _sweep(place)
    remove_made(context)
    for name in ("clusters", "builds", "models"):
        remove_empty(f"{state}/{name}")
    remove_empty(state)
    return {"left": [f"{STATE}/{name}" for name in sorted(os.listdir(state))] if os.path.isdir(state) else []}


def _sweep(top: str) -> None:
    """Remove what a run that was cut off left unfinished under `top`."""
    for directory, folders, files in os.walk(top):
        for name in [*folders, *files]:
            if name.startswith(TEMPORARY):
                remove_path(f"{directory}/{name}")


def read_salt(context: Context) -> str | None:
    """Return the salt in hex, None when there is none yet."""
    try:
        with open(context.path(SALT), encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def ensure_salt(context: Context) -> str:
    """Return the salt, made at first use."""
    if found := read_salt(context):
        return found
    make_directories(context.path(STATE))
    salt = os.urandom(SALT_BYTES).hex()
    with replacing(context.path(SALT), 0o600) as descriptor:
        write_all(descriptor, salt.encode() + b"\n")
    return salt


def salt(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the salt, made at first use."""
    del arguments
    return {"salt": ensure_salt(context)}
