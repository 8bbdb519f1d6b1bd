"""`hetctl schema`: print what describes the manifest and the documents, for editors, programs and readers."""

from __future__ import annotations

import click

from hetctl.cli.options import Command
from hetctl.cli.surroundings import Surroundings

PAGES = ("cluster", "reference", "errors")
DOCUMENTS = ("plan", "apply", "status", "graph", "locks", "answer", "log", "event", "error", "validation")


@click.command(
    cls=Command,
    examples=(
        ("hetctl schema > cluster.schema.json", "the JSON Schema of manifest files"),
        ("hetctl schema plan", "the JSON Schema of what `diff -o json` prints"),
        ("hetctl schema reference", "every key of the manifest, as Markdown"),
    ),
)
@click.argument("name", type=click.Choice([*PAGES, *DOCUMENTS]), default="cluster")
@click.pass_obj
def command(surroundings: Surroundings, name: str) -> int:
    """Print a JSON Schema, or with `reference` and `errors` a page about the manifest."""
    surroundings.console.result(_text(name))
    return 0


def _text(name: str) -> str:
    if name == "cluster":
        from hetctl.manifest.schema import schema_text  # noqa: PLC0415 - keeps --help quick

        return schema_text()
    if name in PAGES:
        from hetctl.manifest import reference  # noqa: PLC0415 - as above

        return reference.manifest_reference() if name == "reference" else reference.error_reference()
    from hetctl.report import schemas  # noqa: PLC0415 - as above

    return schemas.schema_text(name)
