"""`hetctl switch`: run another member of a group."""

from __future__ import annotations

from typing import Any

import click

from hetctl.cli.options import Command, placement_change_options
from hetctl.cli.surroundings import Surroundings


@click.command(
    cls=Command,
    examples=(("hetctl switch code", "code takes over from the member of its group that runs"),),
)
@placement_change_options
@click.pass_obj
def command(surroundings: Surroundings, /, **options: Any) -> int:
    """Stop the member of a group that runs and start PLACEMENT in its place.

    If it does not start, the other one is started again.
    """
    from hetctl.cli.placement_change import Order, change_placement  # noqa: PLC0415 - keeps --help quick
    from hetctl.resources.provider import Verb  # noqa: PLC0415 - as above

    return change_placement(surroundings, Order(verb=Verb.SWITCH, **options))
