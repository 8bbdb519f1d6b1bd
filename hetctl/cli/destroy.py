"""`hetctl destroy`: remove everything hetctl made."""

from __future__ import annotations

from pathlib import Path

import click

from hetctl.cli.options import (
    Command,
    Duration,
    file_argument,
    host_key_option,
    output_option,
    unreachable_option,
)
from hetctl.cli.surroundings import DEFAULT_MANIFEST, Surroundings
from hetctl.errors import ExitCode, UsageError
from hetctl.report.console import command_line


@click.command(
    cls=Command,
    examples=(
        ("hetctl destroy", "show what would go, and ask for the cluster's name"),
        ("hetctl destroy --confirm den", "without asking (for scripts)"),
        ("hetctl destroy --keep-models", "leave downloaded models where they are"),
        ("hetctl destroy --node root@10.0.0.5 --cluster den", "without a manifest, from one of its nodes"),
    ),
)
@file_argument
@output_option
@click.option("--confirm", metavar="NAME", help="The cluster's name, instead of typing it when asked.")
@click.option("--node", metavar="[USER@]HOST[:PORT]", help="A node of a cluster that has no manifest.")
@click.option("--cluster", metavar="NAME", help="With --node: the cluster's name.")
@click.option("--keep-models", is_flag=True, help="Leave models in place, with their marks.")
@click.option(
    "--lock-wait",
    type=Duration(),
    default=0.0,
    metavar="TIME",
    help="Wait for somebody else's lock, such as 10m.",
)
@unreachable_option
@host_key_option
@click.option("--events", metavar="FILE", type=click.Path(), help="Write JSON lines about the run to FILE.")
@click.pass_obj
def command(
    surroundings: Surroundings,
    file: str,
    *,
    confirm: str | None,
    node: str | None,
    cluster: str | None,
    keep_models: bool,
    lock_wait: float,
    allow_unreachable: tuple[str, ...],
    accept_new_host_keys: bool,
    events: str | None,
) -> int:
    """Remove everything hetctl made on the nodes of the manifest and of their member records.

    What carries no mark of this cluster is not touched. Needs the cluster's name, typed or as --confirm.
    """
    from hetctl.cli.changing import Asking, finish, require_answer, watching  # noqa: PLC0415 - keeps --help quick
    from hetctl.engine.operations import ApplyOptions, destroy  # noqa: PLC0415 - as above

    console = surroundings.console
    require_answer(console, given=confirm is not None, option="--confirm NAME")
    if (node is None) != (cluster is None) or (node is not None and file != DEFAULT_MANIFEST):
        raise UsageError("--node and --cluster go together, and without a manifest")
    if node is not None and cluster is not None:
        provider = surroundings.found(cluster, node, accept_new_host_keys=accept_new_host_keys)
        again = ["--node", node, "--cluster", cluster]
    else:
        provider = surroundings.provider(file, accept_new_host_keys=accept_new_host_keys)
        again = [file]
    if confirm is not None and confirm != provider.cluster:
        raise UsageError(
            f"{confirm!r} is not the name of this cluster",
            where=node or file,
            why=f"it is named {provider.cluster!r}",
        )
    asking = Asking(
        console,
        prune=True,
        given=confirm is not None,
        question=lambda plan: (
            console.ask(f"Type the cluster's name to remove all of it ({plan.cluster}):") == plan.cluster
        ),
    )
    options = ApplyOptions(prune=True, lock_wait=lock_wait, allow_unreachable=frozenset(allow_unreachable))
    with (
        watching(console, events) as reporter,
        console.patience(f"reading the nodes of {provider.cluster} ..."),
    ):
        result = destroy(provider, asking, options, keep_models=keep_models, reporter=reporter)

    def following(code: ExitCode) -> str:
        return "" if code is ExitCode.DONE else command_line("hetctl", "destroy", *again)

    manifest = str(Path(file).resolve()) if node is None else ""
    return finish(console, asking, result, manifest, next_command=following)
