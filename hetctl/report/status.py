"""How a cluster is, as text."""

from __future__ import annotations

from hetctl.engine.inquiry import StatusResult
from hetctl.report.figures import columns
from hetctl.report.outcome import endpoints_text
from hetctl.report.terminal import Terminal
from hetctl.resources.view import Health


def status_text(status: StatusResult, terminal: Terminal) -> str:
    """Return how every placement and its members are, and where it answers."""
    lines = [
        terminal.magenta(f"{node}  ? unknown: {error.what}{': ' + error.why if error.why else ''}")
        for node, error in status.unknown.items()
    ]
    for placement in status.placements:
        heading = f"{terminal.bold(placement.placement)}  {_paint(placement.health, terminal)}"
        lines.append(f"{heading}  {placement.detail}".rstrip())
        rows = [
            [member.node, member.address.removesuffix(f"@{member.node}"), member.health.value, member.detail]
            for member in placement.members
        ]
        lines.extend(f"  {line}" for line in columns(rows))
        if placement.fix:
            lines.append(f"  fix: {placement.fix}")
        if placement.endpoint is not None and placement.health in ANSWERING:
            lines.extend(f"  {line}" for line in endpoints_text([placement.endpoint], terminal).splitlines())
    if not status.placements:
        lines.append(f"{status.cluster} declares no placements")
    return "".join(f"{line}\n" for line in lines)


ANSWERING = frozenset({Health.READY, Health.STARTING, Health.FAILED})
"""Health of placements whose address is worth knowing: something stands there."""


def _paint(health: Health, terminal: Terminal) -> str:
    match health:
        case Health.READY:
            return terminal.green(health.value)
        case Health.FAILED | Health.ABSENT:
            return terminal.red(health.value)
        case Health.UNKNOWN:
            return terminal.magenta(health.value)
        case _:
            return terminal.yellow(health.value)
