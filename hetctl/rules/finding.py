"""Findings: what there is to say about manifest, nodes and catalogue together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hetctl.errors import Position


class Severity(StrEnum):
    """How much a finding matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"  # blocks: apply refuses before it changes anything


@dataclass(frozen=True, slots=True)
class Finding:
    """Something manifest, facts and catalogue say together.

    Arguments:
        code: Stable identifier, such as `PCIE_DEGRADED`.
        severity: Whether it blocks.
        where: Node, card or resource, such as `atlas/fast`.
        what: One sentence.
        why: The evidence.
        fix: What the user can do, best a command ready to paste.
        position: The manifest line it is about.
    """

    code: str
    severity: Severity
    where: str
    what: str
    why: str = ""
    fix: str = ""
    position: Position | None = None
