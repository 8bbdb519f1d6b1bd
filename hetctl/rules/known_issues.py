"""Known faults of the declared builds of llama.cpp, as findings. Pure."""

from __future__ import annotations

from hetctl.catalog.issues import KnownIssue, Situation, known_issues
from hetctl.errors import Position
from hetctl.rules.finding import Finding, Severity


def known_issue_findings(
    where: str, build: int, situation: Situation, position: Position | None
) -> list[Finding]:
    """Return a finding for each known fault that a placement would meet.

    Arguments:
        where: The placement.
        build: Number of its build.
        situation: What the faults depend on.
        position: The manifest line that declares the placement.
    """
    return [
        Finding(
            code=finding_code(issue),
            severity=Severity(issue.severity),
            where=where,
            what=issue.what.rstrip("."),
            why=f"llama.cpp {issue.builds}; {issue.origin.source}",
            fix=issue.fix,
            position=position,
        )
        for issue in known_issues(build, situation)
    ]


def finding_code(issue: KnownIssue) -> str:
    """Return the code of an issue's findings: its own name, `ROW_SPLIT_GONE` for `row-split-gone`."""
    return issue.id.replace("-", "_").upper()
