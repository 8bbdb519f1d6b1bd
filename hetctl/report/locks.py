"""Who holds which lock, as text."""

from __future__ import annotations

from hetctl.engine.unlock import Holding, Locks, Unlocked
from hetctl.report.figures import counted
from hetctl.report.terminal import Terminal


def locks_text(found: Locks, terminal: Terminal, *, next_command: str = "") -> str:
    """Return who holds the lock of each node; every line ends with a newline.

    Arguments:
        found: What the nodes said.
        terminal: What can be shown.
        next_command: What ends those that still work; empty when there are none.
    """
    lines = [
        terminal.magenta(f"{node}  ? unknown: {error.what}{': ' + error.why if error.why else ''}")
        for node, error in found.unknown.items()
    ]
    for holding in found.held:
        state = terminal.yellow("held, but its operator is gone") if holding.abandoned else "held"
        lines.append(f"{terminal.bold(holding.node)}  {state}: {_holder(holding)}")
    lines.append(f"{counted(len(found.held), 'lock')} held, {len(found.free)} free.")
    if next_command:
        lines.append(f"Wait until it is done, end it where it was started, or: {next_command}")
    return "".join(f"{line}\n" for line in lines)


def _holder(holding: Holding) -> str:
    who = holding.holder
    words = [f"{who.get('command', 'something')} of {who.get('cluster', '?')} by {who.get('who', '?')}"]
    if since := who.get("since"):
        words.append(f"since {since}")
    if manifest := who.get("manifest"):
        words.append(f"{manifest}{' at ' + str(who['commit']) if who.get('commit') else ''}")
    words.append(f"process {who.get('pid', '?')} on the node")
    words.append(f"last sign of its operator {holding.silent:.0f} s ago")
    return ", ".join(words)


def unlocked_text(done: Unlocked, terminal: Terminal) -> str:
    """Return what was ended and what was not."""
    lines = [
        f"{node}  free" + (f": ended {', '.join(ended)}" if ended else " already")
        for node, ended in done.ended.items()
    ]
    lines += [
        terminal.red(f"{node}  still held: {error.what}{': ' + error.why if error.why else ''}")
        for node, error in done.errors.items()
    ]
    return "".join(f"{line}\n" for line in lines)
