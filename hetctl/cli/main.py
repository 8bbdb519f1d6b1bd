"""The `hetctl` command: finds the command, runs it, and turns what happens into an exit code."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

import click

from hetctl import __version__
from hetctl.cli.surroundings import Surroundings, from_process
from hetctl.errors import ExitCode, HetctlError, Interrupted, UsageError


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: a module of this package with an attribute `command`.

    Arguments:
        module: Name of the module.
        summary: What the group's help says; kept here so that help loads no command.
    """

    module: str
    summary: str


COMMANDS = {
    "validate": Entry("validate", "Check a manifest; contacts no node."),
    "diff": Entry("diff", "Show what apply would do; changes nothing."),
    "apply": Entry("apply", "Make the nodes what the manifest says."),
    "destroy": Entry("destroy", "Remove everything hetctl made."),
    "start": Entry("start", "Start a placement that is stopped."),
    "stop": Entry("stop", "Stop a placement; it stays installed."),
    "switch": Entry("switch", "Run another member of a group."),
    "restart": Entry("restart", "Stop and start a placement."),
    "rollback": Entry("rollback", "Go back to a placement's previous generation."),
    "graph": Entry("graph", "Show what depends on what, as text or as a picture."),
    "status": Entry("status", "Say how the placements are and where they answer."),
    "logs": Entry("logs", "Show the journals of a placement's processes."),
    "ask": Entry("ask", "Send one prompt to a placement."),
    "unlock": Entry("unlock", "Show who holds the locks; free what was left behind."),
    "schema": Entry("schema", "Print a JSON schema, for editors and programs."),
}

EXAMPLES = (
    ("hetctl validate", "check ./cluster.yaml; no node is contacted"),
    ("hetctl diff", "see what would change, why, and what it interrupts"),
    ("hetctl apply", "show the plan, ask, and execute it"),
    ("hetctl ask 'Who are you?'", "try the model"),
    ("hetctl status", "see where it answers"),
)


class Group(click.Group):
    """Loads a command when it is called, and suggests one for a name that is none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands that are there."""
        return [
            name for name, entry in COMMANDS.items() if importlib.util.find_spec(_module(entry)) is not None
        ]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name; None when there is none."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(_module(COMMANDS[cmd_name])).command
        if not isinstance(command, click.Command):
            message = f"{_module(COMMANDS[cmd_name])}.command is no command"
            raise TypeError(message)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` name."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            raise UsageError(
                f"there is no command {args[0]!r}",
                fix=f"did you mean {near[0]!r}?" if near else "hetctl --help lists the commands",
            )
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what it is, examples, commands and options."""
        formatter.write_text("hetctl keeps machines running the models that a manifest says they run.")
        with formatter.section("Examples"):
            formatter.write_dl(list(EXAMPLES))
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])
        click.Command.format_options(self, ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_text(
                "0 done or no changes, 1 bug, 2 changes pending (diff), 3 manifest invalid, "
                "4 applied in part, 5 node unreachable, 6 locked, 7 plan stale, 8 stopped at a gate, "
                "9 refused, nothing changed, 10 not healthy (status), 64 usage, 130 interrupted"
            )


def _module(entry: Entry) -> str:
    return f"hetctl.cli.{entry.module}"


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="hetctl", message="%(prog)s %(version)s")
def hetctl() -> None:
    """Keep machines running the models that a manifest says they run."""


def run(arguments: Sequence[str], surroundings: Surroundings) -> int:
    """Run a command line and return its exit code; nothing is raised.

    Arguments:
        arguments: Without the program's name.
        surroundings: Streams, and how a manifest becomes a cluster.
    """
    console = surroundings.console
    console.json = _wants_json(arguments)
    try:
        returned = hetctl.main(
            args=list(arguments) or ["--help"], prog_name="hetctl", standalone_mode=False, obj=surroundings
        )
    except click.ClickException as error:
        return _fail(surroundings, _usage(error))
    except HetctlError as error:
        return _fail(surroundings, error)
    except (KeyboardInterrupt, click.Abort):
        return _fail(surroundings, Interrupted("interrupted"))
    except Exception as error:  # noqa: BLE001 - the last resort: said to be a bug, with its traceback
        return _fail(surroundings, error)
    return returned if isinstance(returned, int) else int(ExitCode.DONE)


def _fail(surroundings: Surroundings, error: Exception) -> int:
    code = error.exit_code if isinstance(error, HetctlError) else ExitCode.BUG
    try:
        surroundings.console.failure(error, code)
    except Interrupted as gone:  # nobody reads what went wrong
        return int(gone.exit_code)
    return int(code)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Return whether an error of the command line itself should be JSON: it comes before options are read."""
    joined = " ".join(arguments)
    return any(form in f"{joined} " for form in ("-o json ", "-ojson ", "--output json ", "--output=json "))


def _usage(error: click.ClickException) -> UsageError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context is not None else "hetctl"
    return UsageError(error.format_message().rstrip("."), where=command, fix=f"see {command} --help")


def _terminated(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main() -> NoReturn:
    """Run the command line of this process; SIGTERM, which ends a job in CI, is taken for Ctrl-C."""
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(run(sys.argv[1:], from_process()))
