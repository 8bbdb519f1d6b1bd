"""A cluster without a manifest: one node of it is known, and what that one's record says.

Nothing is declared, so everything that carries the cluster's mark is to go.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetctl.errors import ManifestInvalid, UsageError
from hetctl.manifest.loader import load_text
from hetctl.manifest.references import resolve
from hetctl.resources.cluster import ClusterProvider
from hetctl.resources.headers import ModelFiles
from hetctl.resources.identity import Recorded, departed
from hetctl.resources.provider import Access, Survey, Target
from hetctl.resources.reaching import recorded_target
from hetctl.resources.reading import NodeReading
from hetctl.rules.finding import Finding, Severity
from hetctl.transport.workstation import Workstation

LOCAL = "local"
"""How the machine hetctl runs on is named."""

_DESTINATION = re.compile(
    r"(?:(?P<user>[^@\s:]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^@\s:\[\]-][^@\s:\[\]]*)(?::(?P<port>[0-9]{1,5}))?"
)


def found_cluster(name: str, destination: str, access: Access) -> FoundCluster:
    """Return the cluster `name` as a node of it knows it; no node is contacted yet.

    Arguments:
        name: Of the cluster.
        destination: The node: `[user@]host[:port]`, or `local`.
        access: How nodes may be reached.

    Raises:
        UsageError: One of the two cannot be what it should.
    """
    try:
        cluster = load_text(f"apiVersion: hetctl/v1\nkind: Cluster\nname: {name!r}\n")
    except ManifestInvalid as invalid:
        raise UsageError(
            f"{name!r} is not a cluster's name", where="--cluster", why=invalid.problems[0].message
        ) from None
    workstation = Workstation.from_environment(os.environ)
    return FoundCluster(
        manifest=Path(destination),
        resolved=resolve(cluster),
        access=access,
        workstation=workstation,
        models=ModelFiles(workstation),
        start=parse_destination(destination),
    )


def parse_destination(text: str) -> Recorded:
    """Return the machine that `[user@]host[:port]` or `local` names.

    Raises:
        UsageError: It is neither.
    """
    if text == LOCAL:
        return Recorded(name=text, local=True, address="")
    if _is_ipv6(text):
        return Recorded(name=text, local=False, address=text)
    match = _DESTINATION.fullmatch(text)
    port = int(match["port"]) if match is not None and match["port"] else None
    if match is None or port == 0 or (port or 0) > 65535:  # noqa: PLR2004 - the protocol's number
        raise UsageError(
            f"{text!r} is not a node", where="--node", fix="write HOST, USER@HOST, USER@HOST:PORT or local"
        )
    address = match["host"].strip("[]")
    return Recorded(name=address, local=False, address=address, user=match["user"], port=port)


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6  # noqa: PLR2004 - the protocol's number
    except ValueError:
        return False


@dataclass(kw_only=True)
class FoundCluster(ClusterProvider):
    """A cluster that is known by one of its nodes.

    Arguments:
        start: That node.
    """

    start: Recorded

    def targets(self) -> Sequence[Target]:
        """Return the node that is known."""
        return [recorded_target(self.start.name, self.start, self.resolved.cluster, {}, self.access)]

    def recorded_targets(self, readings: Mapping[str, NodeReading]) -> Sequence[Target]:
        """Return the other machines that the records name."""
        here = readings.get(self.start.name)
        return [
            recorded_target(name, item, self.resolved.cluster, {}, self.access)
            for name, item in departed(readings, {}).items()
            if name != self.start.name and (here is None or not _is(item, here))
        ]

    def concerns(self, survey: Survey) -> Sequence[Finding]:
        """Return what there is to say about the nodes; an error where the known one has nothing of it."""
        found = list(super().concerns(survey))
        here = survey.readings.get(self.start.name)
        if here is None or here.marks or here.members is not None:
            return found
        others = sorted({mark.cluster for mark in here.foreign} | here.unclear)
        nothing = Finding(
            code="NO_SUCH_CLUSTER",
            severity=Severity.ERROR,
            where=self.start.name,
            what=f"this machine has nothing of a cluster {self.cluster}",
            why=f"it has {', '.join(others)}" if others else "nor of any other",
            fix="check both names; a cluster that was destroyed is gone without a trace",
        )
        return [nothing, *found]


def _is(item: Recorded, reading: NodeReading) -> bool:
    """Return whether a recorded machine is one that was read under another name."""
    return item.called in reading.names and item.machine_id in ("", reading.facts.machine_id)
