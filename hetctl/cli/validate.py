"""`hetctl validate`: check a manifest without contacting any node."""

from __future__ import annotations

import os

import click

from hetctl.cli.options import Command, output_option
from hetctl.cli.surroundings import DEFAULT_MANIFEST, Surroundings
from hetctl.errors import ExitCode, ManifestInvalid, Problem, UsageError


@click.command(
    cls=Command,
    examples=(
        ("hetctl validate", "check ./cluster.yaml"),
        ("hetctl validate den/ keys.yaml", "check several files as one manifest"),
        ("hetctl validate --format github", "annotate a pull request from a workflow"),
        ("hetctl validate -o json -", "read standard input, print a document"),
    ),
)
@click.argument("files", nargs=-1, type=click.Path())
@output_option
@click.option(
    "--format",
    "style",
    type=click.Choice(["full", "github"]),
    default="full",
    help="Form of the problems as text.",
)
@click.pass_obj
def command(surroundings: Surroundings, files: tuple[str, ...], *, style: str) -> int:
    """Check a manifest: files, directories of *.yaml and *.yml, or - for standard input.

    Exit code 0: valid, perhaps with warnings; 3: not valid.
    """
    from hetctl.manifest import load  # noqa: PLC0415 - keeps --help quick
    from hetctl.manifest.cautions import cautions  # noqa: PLC0415 - as above
    from hetctl.manifest.references import resolve  # noqa: PLC0415 - as above
    from hetctl.rules.layer_counts import check_layer_counts  # noqa: PLC0415 - as above

    paths = files or (DEFAULT_MANIFEST,)
    for path in paths:
        if path != "-" and not os.path.exists(path):  # noqa: PTH110 - pathlib raises for names too long to exist
            raise UsageError(
                "there is no such manifest", where=path, fix="write one, or name the one you mean"
            )
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    summary = ""
    try:
        resolved = resolve(load(paths))
        check_layer_counts(resolved)
        warnings = cautions(resolved)
        counts = [(resolved.nodes, "machine"), (resolved.placements, "placement")]
        parts = " and ".join(f"{len(names)} {word}{'s' * (len(names) != 1)}" for names, word in counts)
        summary = f"{' '.join(paths)} is valid: cluster {resolved.cluster.name}, {parts}.\n"
    except ManifestInvalid as error:
        problems = error.problems
    _show(surroundings, problems, warnings, summary, style)
    return int(ExitCode.MANIFEST_INVALID if problems else ExitCode.DONE)


def _show(
    surroundings: Surroundings,
    problems: tuple[Problem, ...],
    warnings: tuple[Problem, ...],
    summary: str,
    style: str,
) -> None:
    from hetctl.report.problems import problems_for_github, problems_text  # noqa: PLC0415 - keeps --help quick

    console = surroundings.console
    if console.json:
        from hetctl.report.validation import ValidationDocument  # noqa: PLC0415 - as above

        console.document(ValidationDocument.of(problems, warnings))
    elif style == "github":
        console.result(problems_for_github((*problems, *warnings)))
    elif problems:
        console.result(problems_text(problems, console.out))
    else:
        if warnings:
            console.note(problems_text(warnings, console.err))
        console.result(summary)
