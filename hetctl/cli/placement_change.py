"""What `start`, `stop` and `switch` share: a plan for one placement, shown, agreed to and executed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hetctl.cli.changing import Asking, count_question, finish, require_answer, watching
from hetctl.cli.surroundings import Surroundings
from hetctl.engine.inquiry import chosen_placement
from hetctl.engine.operations import ApplyOptions, apply
from hetctl.errors import ExitCode
from hetctl.report.console import command_line
from hetctl.resources.provider import Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked on the command line.

    Arguments:
        file: The manifest.
        placement: Name of a placement; None for the only one.
        verb: What to do with it.
        yes: Without asking.
        lock_wait: Seconds to wait for somebody else's lock.
        accept_new_host_keys: Record unknown host keys without asking.
        events: File for JSON lines about the run.
    """

    file: str
    placement: str | None
    verb: Verb
    yes: bool = False
    lock_wait: float = 0.0
    accept_new_host_keys: bool = False
    events: str | None = None


def change_placement(surroundings: Surroundings, order: Order) -> int:
    """Do what was asked with one placement, and return the exit code.

    Raises:
        UsageError: There is no such placement, the manifest forbids it, or nobody can be asked.
    """
    console = surroundings.console
    require_answer(console, given=order.yes, option="--yes")
    cluster = surroundings.provider(order.file, accept_new_host_keys=order.accept_new_host_keys)
    provider, about = cluster.asked(order.verb, chosen_placement(cluster, order.placement))
    asking = Asking(
        console,
        prune=False,
        given=order.yes,
        question=lambda plan: console.confirm(count_question(plan, prune=False)),
    )
    options = ApplyOptions(lock_wait=order.lock_wait, targets=about)
    with (
        watching(console, order.events) as reporter,
        console.patience(f"reading the nodes of {provider.cluster} ..."),
    ):
        result = apply(provider, asking, options, reporter=reporter)

    def following(code: ExitCode) -> str:
        verb = "status" if code is ExitCode.DONE else "diff"
        return command_line("hetctl", verb, order.file)

    return finish(console, asking, result, str(Path(order.file).resolve()), next_command=following)
