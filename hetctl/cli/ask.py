"""`hetctl ask`: send one prompt to a placement."""

from __future__ import annotations

import click

from hetctl.cli.options import Command, Duration, host_key_option, manifest_option, output_option
from hetctl.cli.surroundings import Surroundings
from hetctl.errors import ExitCode, UsageError


@click.command(
    cls=Command,
    examples=(
        ("hetctl ask 'Who are you?'", "when the manifest declares one placement"),
        ("hetctl ask -p chat 'Who are you?'", "when it declares several"),
        ("git diff | hetctl ask -p chat -", "a prompt from standard input"),
    ),
)
@click.argument("prompt")
@click.option("-p", "--placement", help="Which placement; may be left out if there is one.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    help="Length at which the answer is cut off.",
)
@click.option(
    "--timeout",
    type=Duration(),
    default=120.0,
    metavar="TIME",
    help="Give up when nothing comes for so long.  [default: 2m]",
)
@manifest_option
@output_option
@host_key_option
@click.pass_obj
def command(
    surroundings: Surroundings,
    prompt: str,
    *,
    placement: str | None,
    max_tokens: int,
    timeout: float,
    file: str,
    accept_new_host_keys: bool,
) -> int:
    """Send PROMPT to a placement and print the answer as it comes.

    The request is made on the node the server stands on, with the server's own key: no port has to be open.
    """
    from hetctl.engine.inquiry import ask, chosen_placement  # noqa: PLC0415 - keeps --help quick
    from hetctl.resources.view import Question  # noqa: PLC0415 - as above

    console = surroundings.console
    text = console.stdin.read() if prompt == "-" else prompt
    if not text.strip():
        raise UsageError("the prompt is empty")
    provider = surroundings.provider(file, accept_new_host_keys=accept_new_host_keys)
    name = chosen_placement(provider, placement)
    emit = console.result if not console.json else _discard
    answer = ask(provider, name, Question(text, max_tokens, timeout), emit)
    if console.json:
        from hetctl.report.documents import AnswerDocument  # noqa: PLC0415 - as above

        console.document(AnswerDocument.of(answer, name))
    elif not answer.text.endswith("\n"):
        console.result("\n")
    if answer.cut:
        console.note(f"cut off after {max_tokens} tokens; --max-tokens N allows more\n")
    return int(ExitCode.DONE)


def _discard(_: str) -> None:
    """Take pieces of an answer that is printed as a whole."""
