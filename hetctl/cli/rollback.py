"""`hetctl rollback`: go back to a placement's previous generation."""

from __future__ import annotations

from typing import Any

import click

from hetctl.cli.options import Command, placement_change_options
from hetctl.cli.surroundings import Surroundings


@click.command(
    cls=Command,
    examples=(("hetctl rollback chat", "show what that means, ask, go back"),),
)
@placement_change_options
@click.pass_obj
def command(surroundings: Surroundings, /, **options: Any) -> int:
    """Go back to the generation of a placement that was proved before the present one.

    The manifest is not changed: afterwards diff says what differs, and apply would go forward again.
    """
    from hetctl.cli.placement_change import Order, change_placement  # noqa: PLC0415 - keeps --help quick
    from hetctl.resources.provider import Verb  # noqa: PLC0415 - as above

    return change_placement(surroundings, Order(verb=Verb.ROLLBACK, **options))
