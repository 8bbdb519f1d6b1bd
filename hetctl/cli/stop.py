"""`hetctl stop`: stop a placement; it stays installed."""

from __future__ import annotations

from typing import Any

import click

from hetctl.cli.options import Command, placement_change_options
from hetctl.cli.surroundings import Surroundings


@click.command(
    cls=Command,
    examples=(
        ("hetctl stop chat", "show what that means, ask, stop it"),
        ("hetctl stop --yes chat", "without asking"),
    ),
)
@placement_change_options
@click.pass_obj
def command(surroundings: Surroundings, /, **options: Any) -> int:
    """Stop a placement: its server, then its workers. All files stay.

    The manifest has the last word: unless the placement is in a group, the next apply starts it again.
    """
    from hetctl.cli.placement_change import Order, change_placement  # noqa: PLC0415 - keeps --help quick
    from hetctl.resources.provider import Verb  # noqa: PLC0415 - as above

    return change_placement(surroundings, Order(verb=Verb.STOP, **options))
