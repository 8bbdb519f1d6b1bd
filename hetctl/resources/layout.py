"""Where hetctl's objects lie on a node and what they are called.

One place for every path, unit and table name, so that a stranger on the node can guess whose they are.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from hetctl.transport import quoting

ROOT = "/var/lib/hetctl"
OWNER = "hetctl"
UNIT_DIRECTORY = "/etc/systemd/system"
UNFINISHED_PREFIX = ".hetctl-"
"""Begins the names of what is unfinished; the agent removes such with the last of a cluster."""

CREDENTIALS_DIRECTORY = "/run/credentials"  # where systemd puts LoadCredential= files since version 247

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class NodePaths:
    """The directories of one node, as the manifest's `paths` sets them."""

    builds: str = f"{ROOT}/builds"
    models: str = f"{ROOT}/models"
    cache: str = "/var/cache/hetctl"


def cluster_directory(cluster: str) -> str:
    """Return the directory that holds what belongs to one cluster on a node."""
    return f"{ROOT}/clusters/{cluster}"


def unit_name(cluster: str, placement: str, role: str, *, part: str = "") -> str:
    """Return the systemd service of a placement's part.

    Arguments:
        cluster: Cluster name.
        placement: Placement name.
        role: `worker`, `server`, `watch` or `firewall`.
        part: For one of several workers on a node, its name in `cpuWorkers`.
    """
    return quoting.unit_name([OWNER, cluster, placement, role, *([part] if part else [])])


def is_ours(unit: str) -> bool:
    """Return whether a unit was made by hetctl, for whatever cluster."""
    return unit.startswith(f"{OWNER}:")


def cluster_of(unit: str) -> str:
    """Return the name of the cluster that a unit of ours belongs to."""
    return unit.split(":")[1]


def units_of_cluster(unit: str) -> str:
    """Return how the names of all units of the cluster begin that a unit of ours belongs to."""
    return ":".join(unit.split(":")[:2]) + ":"


def unit_path(unit: str) -> str:
    """Return the path of a unit file of ours."""
    return f"{UNIT_DIRECTORY}/{unit}"


def user_name(unit: str) -> str:
    """Return the dynamic user of a unit: at most 31 characters, the same for the same unit."""
    return f"hetctl-{hashlib.sha256(unit.encode()).hexdigest()[:12]}"


def table_name(cluster: str, placement: str) -> str:
    """Return the nftables table of a placement, unique though names may hold characters nftables refuses."""
    readable = _UNSAFE.sub("_", f"{cluster}_{placement}")[:40]
    suffix = hashlib.sha256(f"{cluster}/{placement}".encode()).hexdigest()[:8]
    return f"hetctl_{readable}_{suffix}"


def ruleset_path(cluster: str, placement: str) -> str:
    """Return the file that holds a placement's packet filter rules."""
    return f"{cluster_directory(cluster)}/firewall/{placement}.nft"


def secret_path(cluster: str, placement: str, name: str) -> str:
    """Return the root-only file of a secret."""
    return f"{cluster_directory(cluster)}/secrets/{placement}.{name}"


def predecessor_path(cluster: str, placement: str, what: str) -> str:
    """Return the root-only file that says what a placement replaced and how that was."""
    return f"{cluster_directory(cluster)}/replaced/{placement}.{content_hash(what)[:12]}.json"


def credential_path(unit: str, name: str) -> str:
    """Return where the unit's own process finds a secret given by LoadCredential=."""
    return f"{CREDENTIALS_DIRECTORY}/{unit}/{name}"


def content_hash(text: str) -> str:
    """Return the sha256 (hex) of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def script_path(cluster: str, name: str, text: str) -> str:
    """Return the path of a script that units run, named by its content.

    Arguments:
        cluster: Cluster name.
        name: Of the script.
        text: Its content.
    """
    return f"{cluster_directory(cluster)}/scripts/{name}.{content_hash(text)[:12]}.py"


def build_directory(paths: NodePaths, key: str) -> str:
    """Return the directory of one llama.cpp build."""
    return f"{paths.builds}/{key}"


def compile_directory(cache: str, key: str) -> str:
    """Return the directory in which a build is compiled: what an interrupted run left is gone on with."""
    return f"{cache}/{UNFINISHED_PREFIX}compile-{key}"


def compiler_cache(cache: str) -> str:
    """Return the directory for ccache on a node that compiles: it goes with the last of a cluster."""
    return f"{cache}/{UNFINISHED_PREFIX}ccache"


def model_directory(paths: NodePaths, cluster: str, model: str, sha256: str) -> str:
    """Return the directory of one model's files: they keep their own names in it."""
    return f"{paths.models}/{cluster}/{model}-{sha256[:16]}"
