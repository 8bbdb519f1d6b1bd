"""Journal lines as text."""

from __future__ import annotations

from datetime import UTC, datetime

from hetctl.report.terminal import Terminal
from hetctl.resources.view import JournalLine, JournalSource


def journal_line(source: JournalSource, line: JournalLine, terminal: Terminal) -> str:
    """Return a journal entry as one line: when (UTC), which process on which node, what."""
    time = datetime.fromtimestamp(line.time, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    who = f"{source.node} {source.address.removesuffix(f'@{source.node}')}"
    return f"{terminal.dim(time)} {terminal.bold(who)} {line.message}\n"
