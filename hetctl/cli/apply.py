"""`hetctl apply`: make the nodes what the manifest says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click

from hetctl.cli.options import (
    Command,
    Duration,
    file_argument,
    host_key_option,
    output_option,
    target_option,
    unreachable_option,
)
from hetctl.cli.surroundings import Surroundings
from hetctl.errors import ExitCode, UsageError
from hetctl.report.console import command_line


@click.command(
    cls=Command,
    examples=(
        ("hetctl apply", "show the plan for ./cluster.yaml, ask, execute it"),
        ("hetctl apply --yes --prune", "without asking, removals too (for CI)"),
        ("hetctl apply plan.json", "exactly the plan that diff --save kept, or nothing"),
        ("hetctl apply --yes --events run.jsonl", "with JSON lines for a program that watches"),
    ),
)
@file_argument
@output_option
@click.option("-y", "--yes", is_flag=True, help="Execute without asking. Does not include removals.")
@click.option(
    "--prune", is_flag=True, help="Remove what hetctl made and the manifest does not declare any more."
)
@click.option("--fail-fast", is_flag=True, help="Begin nothing new after the first failure.")
@click.option(
    "--lock-wait",
    type=Duration(),
    default=0.0,
    metavar="TIME",
    help="Wait for somebody else's lock, such as 10m.",
)
@target_option
@unreachable_option
@host_key_option
@click.option("--events", metavar="FILE", type=click.Path(), help="Write JSON lines about the run to FILE.")
@click.pass_obj
def command(
    surroundings: Surroundings,
    file: str,
    *,
    yes: bool,
    prune: bool,
    fail_fast: bool,
    lock_wait: float,
    target: tuple[str, ...],
    allow_unreachable: tuple[str, ...],
    accept_new_host_keys: bool,
    events: str | None,
) -> int:
    """Make the nodes what the manifest says, and prove that they are.

    Shows the plan and asks first. Without a terminal it needs --yes. Ctrl-C once ends gently, twice at once;
    the next apply goes on either way.
    """
    from hetctl.cli.changing import Asking, count_question, finish, require_answer, watching  # noqa: PLC0415 - keeps --help quick
    from hetctl.engine.operations import ApplyOptions, apply  # noqa: PLC0415 - as above

    console = surroundings.console
    saved = saved_plan(Path(file))
    require_answer(console, given=yes or saved is not None, option="--yes")
    manifest = saved.manifest if saved is not None else file
    provider = surroundings.provider(manifest, accept_new_host_keys=accept_new_host_keys)
    asking = Asking(
        console,
        prune=prune,
        given=yes or saved is not None,
        question=lambda plan: console.confirm(count_question(plan, prune=prune)),
    )
    options = ApplyOptions(
        prune=prune,
        fail_fast=fail_fast,
        lock_wait=lock_wait,
        allow_unreachable=frozenset(allow_unreachable),
        expected=saved.fingerprint if saved is not None else None,
        targets=frozenset(saved.targets if saved is not None else target),
    )
    with (
        watching(console, events) as reporter,
        console.patience(f"reading the nodes of {provider.cluster} ..."),
    ):
        result = apply(provider, asking, options, reporter=reporter)

    def following(code: ExitCode) -> str:
        if code is ExitCode.DONE:
            return command_line("hetctl", "status", manifest) if result.report is not None else ""
        if result.report is None and result.situation.plan.removals and not prune:
            return command_line("hetctl", "apply", "--prune", manifest)
        wanted = prune or bool(result.situation.plan.removals)
        return command_line("hetctl", "apply", "--prune" if wanted else "", manifest)

    return finish(console, asking, result, str(Path(manifest).resolve()), next_command=following)


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """What `diff --save` kept.

    Arguments:
        manifest: Path of the manifest.
        fingerprint: Of everything the plan rests on.
        targets: What it is limited to.
    """

    manifest: str
    fingerprint: str
    targets: tuple[str, ...]


def saved_plan(path: Path) -> SavedPlan | None:
    """Return the plan a file holds; None when it is a manifest.

    Raises:
        UsageError: It is JSON but no plan of this version.
    """
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = content["formatVersion"]
        plan = SavedPlan(content["manifest"], content["fingerprint"], tuple(content["targets"]))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            "this is no plan of hetctl",
            where=str(path),
            why=repr(error),
            fix="hetctl diff --save PATH writes one",
        ) from error
    if version != 1:
        raise UsageError(
            "this plan is of another version of hetctl", where=str(path), fix="hetctl diff --save again"
        )
    return plan
