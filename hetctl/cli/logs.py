"""`hetctl logs`: the journals of a placement's processes."""

from __future__ import annotations

import click

from hetctl.cli.options import Command, host_key_option, manifest_option, output_option
from hetctl.cli.surroundings import Surroundings
from hetctl.errors import ExitCode
from hetctl.resources.view import JournalLine, JournalSource


@click.command(
    cls=Command,
    examples=(
        ("hetctl logs chat", "the last 100 lines of each of its processes, merged by time"),
        ("hetctl logs chat -f", "and go on as more is written"),
        ("hetctl logs -n 1000 -o json chat", "JSON lines (schemas/log.schema.json)"),
    ),
)
@click.argument("placement", required=False)
@manifest_option
@output_option
@click.option("-f", "--follow", is_flag=True, help="Go on as more is written, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, 1_000_000),
    default=100,
    show_default=True,
    help="Lines of each process.",
)
@host_key_option
@click.pass_obj
def command(
    surroundings: Surroundings,
    placement: str | None,
    file: str,
    *,
    follow: bool,
    lines: int,
    accept_new_host_keys: bool,
) -> int:
    """Show the journals of a placement's server and workers. PLACEMENT may be left out if there is one."""
    from hetctl.engine.inquiry import chosen_placement, logs  # noqa: PLC0415 - keeps --help quick
    from hetctl.report.errors import error_text  # noqa: PLC0415 - as above
    from hetctl.report.journal import journal_line  # noqa: PLC0415 - as above

    console = surroundings.console
    provider = surroundings.provider(file, accept_new_host_keys=accept_new_host_keys)
    name = chosen_placement(provider, placement)

    told = False

    def emit(source: JournalSource, line: JournalLine) -> None:
        nonlocal told
        told = True
        if console.json:
            from hetctl.report.documents import LogDocument  # noqa: PLC0415 - as above

            console.result(LogDocument.of(source, line, name).line())
        else:
            console.result(journal_line(source, line, console.out))

    unknown = logs(provider, name, lines=lines, follow=follow, emit=emit)
    if not told and not unknown:
        console.note(f"no entries: placement {name} was not applied yet, or its journals are gone\n")
    for error in unknown.values():
        console.note(error_text(error, console.err))
    return int(ExitCode.UNREACHABLE if unknown else ExitCode.DONE)
