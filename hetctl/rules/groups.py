"""Groups: placements that share cards, of which one runs at a time."""

from __future__ import annotations

from collections.abc import Sequence

from hetctl.errors import Position
from hetctl.rules.finding import Finding, Severity


def busy(group: str, *, runs: str, asked: str, position: Position) -> Finding:
    """Return the finding that another member of a group runs already.

    Arguments:
        group: Its name.
        runs: The member that runs.
        asked: The one that is to start.
        position: The manifest line that puts it into the group.
    """
    return Finding(
        code="GROUP_BUSY",
        severity=Severity.ERROR,
        where=f"group {group}",
        what=f"placement {runs} runs, and one member of a group runs at a time",
        fix=f"hetctl switch {asked}",
        position=position,
    )


def idle(group: str, members: Sequence[str], *, position: Position) -> Finding:
    """Return the finding that no member of a group runs.

    Arguments:
        group: Its name.
        members: Those that may.
        position: The manifest line that puts the first into the group.
    """
    return Finding(
        code="GROUP_IDLE",
        severity=Severity.INFO,
        where=f"group {group}",
        what="none of its members runs",
        why="all were stopped, or the node of one that ran could not be read",
        fix=f"hetctl start {members[0]}",
        position=position,
    )
