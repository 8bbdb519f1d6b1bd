"""`hetctl unlock`: who holds the locks, and the end of those who do not work any more."""

from __future__ import annotations

import click

from hetctl.cli.options import Command, file_argument, host_key_option, output_option, unreachable_option
from hetctl.cli.surroundings import Surroundings, exit_code
from hetctl.errors import ExitCode
from hetctl.report.console import command_line


@click.command(
    cls=Command,
    examples=(
        ("hetctl unlock", "who holds the locks of ./cluster.yaml's nodes, and since when"),
        ("hetctl unlock --yes", "end those whose operator is gone, without asking"),
        ("hetctl unlock --force", "end those that still work, too: their apply stops in the middle"),
    ),
)
@file_argument
@output_option
@click.option("-y", "--yes", is_flag=True, help="Without asking.")
@click.option("--force", is_flag=True, help="Also end a run whose operator is there.")
@unreachable_option
@host_key_option
@click.pass_obj
def command(
    surroundings: Surroundings,
    file: str,
    *,
    yes: bool,
    force: bool,
    allow_unreachable: tuple[str, ...],
    accept_new_host_keys: bool,
) -> int:
    """Show who holds which lock; free those whose holder does not work any more.

    A lock is held by a process on the node and is free when that ends, which it does 30 seconds after its
    operator is gone. This is for what is left nevertheless: a process that was frozen, or one that hangs.
    """
    from hetctl.engine.unlock import Unlocked, locks, unlock  # noqa: PLC0415 - keeps --help quick
    from hetctl.report.locks import locks_text, unlocked_text  # noqa: PLC0415 - as above

    console = surroundings.console
    provider = surroundings.provider(file, accept_new_host_keys=accept_new_host_keys)
    with console.patience(f"asking the nodes of {provider.cluster} ..."):
        found = locks(provider)
    codes = [ExitCode.DONE]
    if set(found.unknown) - set(allow_unreachable):
        codes.append(ExitCode.UNREACHABLE)
    chosen = [holding for holding in found.held if force or holding.abandoned]
    if len(chosen) < len(found.held):
        codes.append(ExitCode.LOCKED)
    following = command_line("hetctl", "unlock", "--force", file) if ExitCode.LOCKED in codes else ""
    if not console.json:
        console.result(locks_text(found, console.out, next_command=following))
    done = Unlocked({}, {})
    agreed = yes or (bool(chosen) and console.interactive and console.confirm("End them?"))
    if chosen and agreed:
        with console.patience("ending them ..."):
            done = unlock(found, force=force)
        codes += done.codes()
        if not console.json:
            console.result(unlocked_text(done, console.out))
    elif chosen:
        codes.append(ExitCode.REFUSED)
        if not console.interactive:
            again = command_line("hetctl", "unlock", "--yes", "--force" if force else "", file)
            console.note(f"Nothing was ended. To end them: {again}\n")
    if console.json:
        from hetctl.report.documents import LocksDocument  # noqa: PLC0415 - as above

        console.document(LocksDocument.of(found, done, ExitCode(exit_code(codes))))
    return exit_code(codes)
