"""A plan as text: the outage first, placements before nodes, the next command last."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from hetctl.engine.plan import PlanCounts, count
from hetctl.report.figures import columns, counted, estimate, gibibytes, mebibytes
from hetctl.report.terminal import Terminal
from hetctl.resources.base import Action, Change, Cost, Reason
from hetctl.resources.provider import (
    DeviceRow,
    GangSummary,
    Gate,
    Plan,
    Purpose,
)
from hetctl.rules.finding import Finding, Severity

SIGNS = {
    Action.NONE: " ",
    Action.CREATE: "+",
    Action.UPDATE: "~",
    Action.RESTART: " ",
    Action.RENAME: "~",
    Action.REMOVE: "-",
    Action.FORGET: "?",
    Action.UNKNOWN: "?",
    Action.BLOCKED: "!",
}

RESTARTS = {Cost.SERVICE_RESTART, Cost.MODEL_RELOAD}


def plan_text(plan: Plan, terminal: Terminal, *, next_command: str = "", prune: bool = True) -> str:
    """Return the plan as people read it; every line ends with a newline.

    Arguments:
        plan: What to show.
        terminal: What can be shown.
        next_command: What to type next; empty for nothing.
        prune: False names the consent that removals still need.
    """
    blocks = [
        *_unknown_nodes(plan, terminal),
        *_gangs(plan, terminal),
        *_nodes(plan, terminal),
        *(_gate(gate, terminal) for gate in plan.gates),
        *(finding_text(finding, terminal) for finding in plan.findings),
        _closing(plan, terminal, next_command, prune=prune),
    ]
    return "".join(f"{line}\n" for block in blocks for line in block)


def counts_text(counts: PlanCounts, plan: Plan) -> str:
    """Return the closing line's first half: what is to be done and how much is known."""
    touched = f"{counts.add} to add, {counts.change} to change, {counts.remove} to remove"
    if counts.blocked:
        touched += f", {counts.blocked} blocked"
    if counts.waiting:
        touched += f", {counts.waiting} waiting"
    read = f"{counted(len(plan.nodes_read), 'node')} read, {len(plan.nodes_unknown)} unknown"
    return f"{touched}; {read}."


def _closing(plan: Plan, terminal: Terminal, next_command: str, *, prune: bool) -> list[str]:
    lines = []
    errors = sum(finding.severity is Severity.ERROR for finding in plan.findings)
    if errors:
        lines.append(
            terminal.red(f"apply changes nothing before {counted(errors, 'error is', 'errors are')} mended")
        )
    if plan.removals and not prune:
        lines.append(
            terminal.red(f"{counted(len(plan.removals), 'removal')} left out: add --prune to execute")
        )
    if plan.left_out:
        lines.append(
            terminal.yellow(
                f"{counted(plan.left_out, 'more change')} left out: limited to {', '.join(plan.targets)}"
            )
        )
    quiet = all(change.action is Action.NONE for change in plan.changes)
    if quiet and not plan.gates and not plan.nodes_unknown:
        state = "is as declared" if plan.purpose is Purpose.APPLY else "has nothing left to remove"
        line = f"No changes: {plan.cluster} {state}; {counted(len(plan.nodes_read), 'node')} read, 0 unknown."
    else:
        line = counts_text(count(plan), plan)
    if next_command:
        line += f"   Next: {next_command}"
    return [*lines, line]


def _unknown_nodes(plan: Plan, terminal: Terminal) -> Iterator[list[str]]:
    for node, why in plan.nodes_unknown.items():
        yield [terminal.magenta(f"{node}  ? unknown: {why}")]


def _gangs(plan: Plan, terminal: Terminal) -> Iterator[list[str]]:
    summaries = {summary.placement: summary for summary in plan.gangs}
    touched = [
        change for change in plan.changes if change.gang is not None and change.action is not Action.NONE
    ]
    for name in dict.fromkeys(change.gang for change in touched if change.gang is not None):
        actions = {change.action for change in touched if change.gang == name}
        summaries.setdefault(name, GangSummary(name, actions.pop() if len(actions) == 1 else Action.UPDATE))
    # The outage leads: what goes down is what a reader must not miss.
    for summary in sorted(summaries.values(), key=lambda summary: not summary.outage):
        members = [change for change in touched if change.gang == summary.placement]
        if members or summary.rows:
            yield [
                _gang_heading(summary, terminal),
                *_change_lines(members, plan, terminal, told=summary.reasons, with_node=True),
                *(f"  {line}" for line in _card_table(summary.rows)),
            ]


def _gang_heading(summary: GangSummary, terminal: Terminal) -> str:
    paint = _paint(summary.action, terminal)
    reasons = "; ".join(_reason(reason) for reason in summary.reasons)
    if not reasons and summary.position is not None:
        reasons = f"({summary.position})"
    heading = f"{terminal.bold(summary.placement)}  {paint(SIGNS[summary.action])} {reasons}".rstrip()
    if summary.outage:
        time = f" {estimate(summary.seconds)}" if summary.seconds is not None else ""
        heading += f"   {terminal.yellow(f'down{time}: {summary.outage}')}"
    return heading


def _nodes(plan: Plan, terminal: Terminal) -> Iterator[list[str]]:
    alone = [change for change in plan.changes if change.gang is None and change.action is not Action.NONE]
    for node in dict.fromkeys(change.node for change in alone):
        here = [change for change in alone if change.node == node]
        yield [terminal.bold(node), *_change_lines(here, plan, terminal, told=(), with_node=False)]


def _change_lines(
    changes: Sequence[Change], plan: Plan, terminal: Terminal, *, told: Sequence[Reason], with_node: bool
) -> list[str]:
    width = max((len(change.node) for change in changes), default=0) + 2 if with_node else 0
    rows = [
        [
            f"{change.node if with_node else '':<{width}}{SIGNS[change.action]} {_short(change)}",
            _verb(change),
            _explanation(change, plan, told),
        ]
        for change in changes
    ]
    result = []
    for change, line in zip(changes, columns(rows, gap=3), strict=True):
        result.append(f"  {_paint(change.action, terminal)(line)}")
        if change.fix:
            result.append(f"      fix: {change.fix}")
    return result


def _short(change: Change) -> str:
    """Return the address without the node, which the line or its heading names already."""
    return change.address.removesuffix(f"@{change.node}")


def _verb(change: Change) -> str:
    match change.action:
        case Action.CREATE:
            return "new"
        case Action.UPDATE if change.word:
            return change.word
        case Action.UPDATE:
            if change.cost in RESTARTS:
                return "restart"
            return "change" if change.cost is Cost.NOTHING else change.cost.value
        case Action.FORGET:
            return "unknown"
        case other:
            return other.value


def _explanation(change: Change, plan: Plan, told: Sequence[Reason]) -> str:
    new = bool(change.details) and change.action is Action.CREATE  # that it is new is said already
    untold = [_reason(item) for item in change.reasons if item not in told and (item.drift or not new)]
    words = [*change.details, *untold]
    waits = plan.waits_for(change)
    if waits:
        words.append(f"waits for {waits}")
    return "; ".join(words)


def _reason(reason: Reason) -> str:
    text = f"drift: {reason.text}" if reason.drift else reason.text
    return f"{text} ({reason.position})" if reason.position else text


def _paint(action: Action, terminal: Terminal) -> Callable[[str], str]:
    match action:
        case Action.CREATE:
            return terminal.green
        case Action.UPDATE | Action.RESTART | Action.RENAME:
            return terminal.yellow
        case Action.REMOVE:
            return terminal.red
        case Action.UNKNOWN | Action.FORGET | Action.BLOCKED:
            return terminal.magenta
        case _:
            return str


def _card_table(rows: Sequence[DeviceRow]) -> list[str]:
    if not rows:
        return []
    sized = any(
        size is not None for row in rows for size in (row.weights, row.kv, row.compute, row.free_after)
    )
    if not sized:
        return columns([["card", "layers"], *([row.device, row.layers] for row in rows)], gap=4)
    heading = ["card", "layers", "weights", "KV", "compute", "free after"]
    # One unit for the whole table; a small model would read 0.0 everywhere in GiB.
    small = max((size or 0) for row in rows for size in (row.weights, row.kv, row.compute)) < 1 << 30
    unit, show = ("MiB", mebibytes) if small else ("GiB", gibibytes)
    cells = [
        [
            row.device,
            row.layers,
            *(
                "?" if size is None else show(size)
                for size in (row.weights, row.kv, row.compute, row.free_after)
            ),
        ]
        for row in rows
    ]
    lines = columns([heading, *cells], right=frozenset({2, 3, 4, 5}))
    units = [f" {unit}" if row.free_after is not None else "" for row in rows]
    return [lines[0], *(line + end for line, end in zip(lines[1:], units, strict=True))]


def _gate(gate: Gate, terminal: Terminal) -> list[str]:
    lines = [terminal.yellow(f"gate {gate.name} on {gate.node}: {gate.what}")]
    if gate.fix:
        lines.append(f"  do: {gate.fix}")
    if gate.after:
        lines.append(f"  planned after it: {', '.join(gate.after)}")
    return lines


def finding_text(finding: Finding, terminal: Terminal) -> list[str]:
    """Return a finding as lines."""
    paint = {
        Severity.ERROR: terminal.red,
        Severity.WARNING: terminal.yellow,
        Severity.INFO: terminal.dim,
    }[finding.severity]
    place = f" ({finding.position})" if finding.position else ""
    lines = [f"{paint(f'{finding.severity} {finding.code}')} {finding.where}: {finding.what}{place}"]
    for label, text in (("why", finding.why), ("fix", finding.fix)):
        if text:
            lines.extend(
                textwrap.wrap(
                    f"{label}: {text}",
                    max(terminal.width, 40),
                    initial_indent="  ",
                    subsequent_indent="       ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
    return lines
