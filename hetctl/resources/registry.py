"""The kinds of resources there are. A new kind is one module and one line here."""

from __future__ import annotations

from collections.abc import Mapping

from hetctl.resources.base import Kind
from hetctl.resources.build import BuildKind
from hetctl.resources.firewall import FirewallKind
from hetctl.resources.member import MemberKind
from hetctl.resources.model import ModelKind
from hetctl.resources.predecessor import PredecessorKind
from hetctl.resources.server import ServerKind
from hetctl.resources.worker import WorkerKind

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        MemberKind(),
        BuildKind(),
        ModelKind(),
        FirewallKind(),
        PredecessorKind(),
        WorkerKind(),
        ServerKind(),
    )
}
