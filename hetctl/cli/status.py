"""`hetctl status`: how the placements are."""

from __future__ import annotations

import click

from hetctl.cli.options import Command, file_argument, host_key_option, output_option, unreachable_option
from hetctl.cli.surroundings import Surroundings, exit_code
from hetctl.errors import ExitCode


@click.command(
    cls=Command,
    examples=(
        ("hetctl status", "how the placements of ./cluster.yaml are, and where they answer"),
        ("hetctl status -o json", "the same for programs (schemas/status.schema.json)"),
    ),
)
@file_argument
@output_option
@unreachable_option
@host_key_option
@click.pass_obj
def command(
    surroundings: Surroundings,
    file: str,
    *,
    allow_unreachable: tuple[str, ...],
    accept_new_host_keys: bool,
) -> int:
    """Say how every placement is and where it answers. Changes nothing and takes no lock.

    Exit code 0: all ready or stopped as declared; 5: a node could not be read; 10: something is not healthy.
    """
    from hetctl.engine.inquiry import check_node_names, status  # noqa: PLC0415 - keeps --help quick
    from hetctl.report.status import status_text  # noqa: PLC0415 - as above

    console = surroundings.console
    provider = surroundings.provider(file, accept_new_host_keys=accept_new_host_keys)
    with console.patience(f"asking the nodes of {provider.cluster} ..."):
        result = status(provider)
    check_node_names(allow_unreachable, result.nodes)
    codes = list(result.codes)
    if set(result.unknown) <= set(allow_unreachable):
        codes = [code for code in codes if code is not ExitCode.UNREACHABLE]
    if console.json:
        from hetctl.report.documents import StatusDocument  # noqa: PLC0415 - as above

        console.document(StatusDocument.of(result, ExitCode(exit_code(codes))))
    else:
        console.result(status_text(result, console.out))
    return exit_code(codes)
