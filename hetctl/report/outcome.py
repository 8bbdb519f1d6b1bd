"""The end of a run as text: what became of every step, node by node, and what to do next."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from hetctl.engine.operations import ApplyResult
from hetctl.engine.outcome import Result, RunReport, StepOutcome
from hetctl.errors import HetctlError
from hetctl.report.errors import error_text
from hetctl.report.figures import columns, duration
from hetctl.report.terminal import Terminal
from hetctl.resources.base import Action
from hetctl.resources.view import Endpoint

ORDER = (Result.DONE, Result.FAILED, Result.GATE, Result.STOPPED, Result.SKIPPED, Result.NOT_REACHED)
"""How results are counted in the closing line; all but the first three only when there are any."""

ALWAYS_COUNTED = {Result.DONE, Result.FAILED, Result.SKIPPED, Result.NOT_REACHED}


def outcome_text(report: RunReport, terminal: Terminal, *, next_command: str = "") -> str:
    """Return what became of every step, node by node, then the errors, then the counts.

    Arguments:
        report: What became of them.
        terminal: What can be shown.
        next_command: What to type next; empty for nothing.
    """
    lines: list[str] = []
    nodes = dict.fromkeys(outcome.step.node for outcome in report.outcomes)
    for node in nodes:
        here = [outcome for outcome in report.outcomes if outcome.step.node == node]
        lines.append(terminal.bold(node or "this machine"))
        rows = [[outcome.result.value, outcome.step.name, _remark(outcome)] for outcome in here]
        for outcome, line in zip(here, columns(rows), strict=True):
            lines.append(f"  {_paint(outcome.result, line, terminal)}")
    text = "".join(f"{line}\n" for line in lines)
    errors = [
        _error(outcome, terminal) for outcome in report.outcomes if isinstance(outcome.error, HetctlError)
    ]
    return "\n".join([part for part in (text, *errors) if part]) + _closing(report, next_command)


def _remark(outcome: StepOutcome) -> str:
    if outcome.because:
        return f"because {outcome.because}"
    return duration(outcome.seconds) if outcome.seconds else ""


def _error(outcome: StepOutcome, terminal: Terminal) -> str:
    if not isinstance(outcome.error, HetctlError):
        return ""
    return f"{terminal.bold(outcome.step.name)} on {outcome.step.node or 'this machine'}\n" + error_text(
        outcome.error, terminal
    )


def _paint(result: Result, text: str, terminal: Terminal) -> str:
    match result:
        case Result.DONE:
            return terminal.green(text)
        case Result.FAILED:
            return terminal.red(text)
        case _:
            return terminal.yellow(text)


def _closing(report: RunReport, next_command: str) -> str:
    counts = [
        f"{len(report.with_result(result))} {'at a gate' if result is Result.GATE else result.value}"
        for result in ORDER
        if result in ALWAYS_COUNTED or report.with_result(result)
    ]
    line = ", ".join(counts) + "."
    return f"{line}   Next: {next_command}\n" if next_command else f"{line}\n"


def standing_endpoints(result: ApplyResult) -> tuple[Endpoint, ...]:
    """Return where the placements answer that stand as declared after an apply."""
    plan, report = result.situation.plan, result.report
    ended = {outcome.step.address: outcome.result for outcome in report.outcomes} if report else {}
    absent = {
        change.gang
        for change in plan.changes
        if change.action in {Action.BLOCKED, Action.UNKNOWN}
        or plan.waits_for(change)
        or ended.get(change.address, Result.DONE) is not Result.DONE
        or (report is None and change.action is Action.CREATE)
    }
    return tuple(
        endpoint for endpoint in result.situation.state.endpoints if endpoint.placement not in absent
    )


def endpoints_text(endpoints: Sequence[Endpoint], terminal: Terminal) -> str:
    """Return where placements answer, each with a command that asks it something."""
    lines = []
    for endpoint in endpoints:
        key = f"key {endpoint.key_reference}" if endpoint.key_reference else "no key"
        lines.append(f"{terminal.bold(endpoint.placement)}  {endpoint.url}  model {endpoint.model}  {key}")
        lines.append(f"  {curl(endpoint)}")
    return "".join(f"{line}\n" for line in lines)


def curl(endpoint: Endpoint) -> str:
    """Return a command line that asks a placement something, ready to paste; the key stays a reference."""
    path, body = _example(endpoint)
    words = ["curl", "-sS", shlex.quote(f"{endpoint.url.rstrip('/')}{path}")]
    if endpoint.certificate:
        words += ["--cacert", shlex.quote(endpoint.certificate)]
    if endpoint.key_reference:
        words += ["-H", f'"Authorization: Bearer {_key(endpoint.key_reference)}"']
    words += ["-H", shlex.quote("Content-Type: application/json"), "-d", shlex.quote(json.dumps(body))]
    return " ".join(words)


def _example(endpoint: Endpoint) -> tuple[str, dict[str, Any]]:
    match endpoint.task:
        case "embedding":
            return "/embeddings", {"model": endpoint.model, "input": "Hello"}
        case "rerank":
            return "/rerank", {"model": endpoint.model, "query": "Hello", "documents": ["Hi", "Bye"]}
        case "completions":
            return "/completions", {"model": endpoint.model, "prompt": "Hello", "max_tokens": 32}
        case _:
            return "/chat/completions", {
                "model": endpoint.model,
                "messages": [{"role": "user", "content": "Hello"}],
            }


def _key(reference: str) -> str:
    """Return what a shell puts in for a key reference inside double quotes."""
    kind, _, name = reference.partition(" ")
    if kind == "env":
        return f"${name}"
    if kind == "file":
        return f"$(cat {shlex.quote(name)})"
    return f"$({name})" if kind == "command" else "$KEY"
