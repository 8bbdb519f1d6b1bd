"""Arguments and options that several commands have, and the shape of a command's help."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from hetctl.cli.surroundings import DEFAULT_MANIFEST, Surroundings

Function = TypeVar("Function", bound=Callable[..., Any])

SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class Command(click.Command):
    """A command whose help leads with examples.

    Arguments:
        examples: (command line, what it does) each.
    """

    def __init__(self, *arguments: Any, examples: tuple[tuple[str, str], ...] = (), **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.examples = examples

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what it does, examples, usage and options."""
        self.format_help_text(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_dl(list(self.examples))
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        self.format_options(ctx, formatter)
        self.format_epilog(ctx, formatter)


class Duration(click.ParamType):  # type: ignore[type-arg] # click takes a type argument from 8.2 on only
    """A time such as `90`, `30s`, `10m` or `1h`, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the time in seconds."""
        if isinstance(value, int | float):
            return float(value)
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a time such as 30s, 10m or 1h", param, ctx)
        return float(match[1]) * SECONDS[match[2]]


def _set_json(ctx: click.Context, _param: click.Parameter, value: str) -> str:
    surroundings = ctx.find_object(Surroundings)
    if surroundings is not None:
        surroundings.console.json = value == "json"
    return value


def output_option(function: Function) -> Function:
    """Add `-o text|json`; what it says is in the console."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        is_eager=True,
        expose_value=False,
        callback=_set_json,
        help="Form of the result on standard output.",
    )(function)


def file_argument(function: Function) -> Function:
    """Add the manifest as last argument."""
    return click.argument("file", default=DEFAULT_MANIFEST, type=click.Path())(function)


def manifest_option(function: Function) -> Function:
    """Add the manifest as an option, for commands whose arguments are something else."""
    return click.option(
        "-m",
        "--manifest",
        "file",
        default=DEFAULT_MANIFEST,
        show_default=True,
        type=click.Path(),
        help="The manifest.",
    )(function)


def host_key_option(function: Function) -> Function:
    """Add `--accept-new-host-keys`."""
    return click.option(
        "--accept-new-host-keys",
        is_flag=True,
        help="Record host keys seen for the first time without asking (first contact in CI).",
    )(function)


def unreachable_option(function: Function) -> Function:
    """Add `--allow-unreachable NODE`."""
    return click.option(
        "--allow-unreachable",
        metavar="NODE",
        multiple=True,
        help="A node that may be down: its silence does not change the exit code. May be repeated.",
    )(function)


def target_option(function: Function) -> Function:
    """Add `--target NAME`."""
    return click.option(
        "--target",
        metavar="NAME",
        multiple=True,
        help="Only this placement or resource, with what belongs to it: chat, build/main@atlas. "
        "May be repeated.",
    )(function)


def placement_change_options(function: Function) -> Function:
    """Add the placement and the options of the commands that start and stop one."""
    decorators = (
        click.argument("placement", required=False),
        manifest_option,
        output_option,
        click.option("-y", "--yes", is_flag=True, help="Without asking."),
        click.option(
            "--lock-wait",
            type=Duration(),
            default=0.0,
            metavar="TIME",
            help="Wait for somebody else's lock, such as 10m.",
        ),
        host_key_option,
        click.option(
            "--events", metavar="FILE", type=click.Path(), help="Write JSON lines about the run to FILE."
        ),
    )
    for decorator in reversed(decorators):
        function = decorator(function)
    return function
