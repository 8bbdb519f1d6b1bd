"""`hetctl graph`: what depends on what."""

from __future__ import annotations

import click

from hetctl.cli.options import Command, file_argument, host_key_option, output_option, target_option
from hetctl.cli.surroundings import Surroundings
from hetctl.errors import ExitCode


@click.command(
    cls=Command,
    examples=(
        ("hetctl graph", "trees of resources, each with what it depends on"),
        ("hetctl graph -f svg > plan.svg", "a picture; -f mermaid and -f dot for other programs"),
        ("hetctl graph --steps", "the steps of the next apply instead"),
    ),
)
@file_argument
@output_option
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "dot", "svg"]),
    default="text",
    show_default=True,
    help="How to draw it.",
)
@click.option(
    "--steps", is_flag=True, help="The steps that apply would run, with --prune, in place of resources."
)
@target_option
@host_key_option
@click.pass_obj
def command(
    surroundings: Surroundings,
    file: str,
    *,
    form: str,
    steps: bool,
    target: tuple[str, ...],
    accept_new_host_keys: bool,
) -> int:
    """Show the dependency graph of the plan, as diff would make it. Changes nothing and takes no lock."""
    from hetctl.engine.diagram import plan_diagram, step_diagram  # noqa: PLC0415 - keeps --help quick
    from hetctl.engine.operations import diff  # noqa: PLC0415 - as above
    from hetctl.report import diagram as drawn  # noqa: PLC0415 - as above
    from hetctl.report.diagram_svg import svg_text  # noqa: PLC0415 - as above

    console = surroundings.console
    provider = surroundings.provider(file, accept_new_host_keys=accept_new_host_keys)
    with console.patience(f"reading the nodes of {provider.cluster} ..."):
        situation = diff(provider, target)
    plan = situation.plan
    if steps:
        chosen = plan.executable(prune=True)
        diagram = step_diagram(plan.cluster, provider.steps(plan, chosen, situation.survey))
    else:
        diagram = plan_diagram(plan)
    if console.json:
        from hetctl.report.documents import GraphDocument  # noqa: PLC0415 - as above

        console.document(GraphDocument.of(diagram))
        return int(ExitCode.DONE)
    match form:
        case "mermaid":
            console.result(drawn.mermaid_text(diagram))
        case "dot":
            console.result(drawn.dot_text(diagram))
        case "svg":
            console.result(svg_text(diagram))
        case _:
            console.result(drawn.tree_text(diagram, console.out))
    return int(ExitCode.UNREACHABLE if plan.nodes_unknown else ExitCode.DONE)
