"""`hetctl restart`: stop and start a placement."""

from __future__ import annotations

from typing import Any

import click

from hetctl.cli.options import Command, placement_change_options
from hetctl.cli.surroundings import Surroundings


@click.command(
    cls=Command,
    examples=(
        ("hetctl restart chat", "the server, then the workers stop; the workers, then the server start"),
    ),
)
@placement_change_options
@click.pass_obj
def command(surroundings: Surroundings, /, **options: Any) -> int:
    """Stop a placement and start it again, in order, and prove that it answers.

    What differs from the manifest is applied on the way.
    """
    from hetctl.cli.placement_change import Order, change_placement  # noqa: PLC0415 - keeps --help quick
    from hetctl.resources.provider import Verb  # noqa: PLC0415 - as above

    return change_placement(surroundings, Order(verb=Verb.RESTART, **options))
