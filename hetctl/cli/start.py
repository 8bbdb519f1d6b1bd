"""`hetctl start`: start a placement that is stopped."""

from __future__ import annotations

from typing import Any

import click

from hetctl.cli.options import Command, placement_change_options
from hetctl.cli.surroundings import Surroundings


@click.command(
    cls=Command,
    examples=(("hetctl start chat", "show what that means, ask, start it"),),
)
@placement_change_options
@click.pass_obj
def command(surroundings: Surroundings, /, **options: Any) -> int:
    """Start a placement and prove that it answers.

    Nothing else of the manifest is applied, except what the placement stands on.
    """
    from hetctl.cli.placement_change import Order, change_placement  # noqa: PLC0415 - keeps --help quick
    from hetctl.resources.provider import Verb  # noqa: PLC0415 - as above

    return change_placement(surroundings, Order(verb=Verb.START, **options))
