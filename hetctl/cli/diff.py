"""`hetctl diff`: show what apply would do."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hetctl.cli.options import (
    Command,
    file_argument,
    host_key_option,
    output_option,
    target_option,
    unreachable_option,
)
from hetctl.cli.surroundings import Surroundings, exit_code
from hetctl.report.console import command_line


@click.command(
    cls=Command,
    examples=(
        ("hetctl diff", "what apply would do, for ./cluster.yaml"),
        ("hetctl diff --save plan.json", "keep the plan for hetctl apply plan.json"),
        ("hetctl diff -o json den.yaml", "the same for programs (schemas/plan.schema.json)"),
    ),
)
@file_argument
@output_option
@click.option(
    "--save", metavar="PATH", type=click.Path(dir_okay=False), help="Keep the plan for `hetctl apply PATH`."
)
@target_option
@unreachable_option
@host_key_option
@click.pass_obj
def command(
    surroundings: Surroundings,
    file: str,
    *,
    save: str | None,
    target: tuple[str, ...],
    allow_unreachable: tuple[str, ...],
    accept_new_host_keys: bool,
) -> int:
    """Show what apply would do, why, and what it interrupts. Changes nothing and takes no lock.

    Exit code 0: no changes; 2: changes pending; 5: a node could not be read; 9: apply would refuse.
    """
    from hetctl.engine.inquiry import check_node_names  # noqa: PLC0415 - keeps --help quick
    from hetctl.engine.operations import blocked, diff, diff_codes  # noqa: PLC0415 - as above
    from hetctl.report.plan import plan_text  # noqa: PLC0415 - as above

    console = surroundings.console
    provider = surroundings.provider(file, accept_new_host_keys=accept_new_host_keys)
    with console.patience(f"reading the nodes of {provider.cluster} ..."):
        plan = diff(provider, target).plan
    check_node_names(allow_unreachable, (*plan.nodes_read, *plan.nodes_unknown))
    if console.json or save is not None:
        from hetctl.report.documents import PlanDocument  # noqa: PLC0415 - as above

        document = PlanDocument.of(plan, str(Path(file).resolve()))
        if save is not None:
            _keep(Path(save), document.text())
        if console.json:
            console.document(document)
    if not console.json:
        prune = "--prune" if plan.removals else ""
        ready = plan.executable(prune=True) and not blocked(plan)
        chosen = [] if save else [word for name in target for word in ("--target", name)]
        following = command_line("hetctl", "apply", prune, *chosen, save or file) if ready else ""
        console.result(plan_text(plan, console.out, next_command=following))
    return exit_code(diff_codes(plan, allow_unreachable))


def _keep(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
