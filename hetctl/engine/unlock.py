"""See who holds the locks, and end those who do not work any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hetctl.engine.examine import survey
from hetctl.engine.parallel import for_each
from hetctl.engine.sessions import opened
from hetctl.errors import ExitCode, HetctlError
from hetctl.resources.provider import Provider, Target

ABANDONED_SECONDS = 45.0
"""An agent notes every 5 s when it last heard from its operator, and ends after 30 s of silence."""

UNLOCK_DEADLINE = 60.0


@dataclass(frozen=True, slots=True)
class Holding:
    """One node's lock while somebody holds it.

    Arguments:
        node: Name.
        holder: Who, as `hetctl.engine.lock.holder` put it, and `pid` of the agent on the node.
        silent: Seconds since the agent heard from its operator.
    """

    node: str
    holder: Mapping[str, Any]
    silent: float

    @property
    def abandoned(self) -> bool:
        """True when its operator is gone and the lock should be free, but is not."""
        return self.silent >= ABANDONED_SECONDS


@dataclass(frozen=True, slots=True)
class Locks:
    """Who holds which lock.

    Arguments:
        cluster: Name of the cluster.
        held: The locks that are held.
        free: Nodes whose lock is free.
        unknown: Nodes that could not be asked, and why.
        targets: The way to each node that was asked.
    """

    cluster: str
    held: tuple[Holding, ...]
    free: tuple[str, ...]
    unknown: Mapping[str, HetctlError] = field(default_factory=dict)
    targets: Sequence[Target] = ()


@dataclass(frozen=True, slots=True)
class Unlocked:
    """What became of locks.

    Arguments:
        ended: By node the processes that were ended, as `name (number)`; none when it was free already.
        errors: Nodes whose lock is still held, and why.
    """

    ended: Mapping[str, tuple[str, ...]]
    errors: Mapping[str, HetctlError]

    def codes(self) -> tuple[ExitCode, ...]:
        """Return every exit code that holds."""
        return (ExitCode.DONE, *(error.exit_code for error in self.errors.values()))


def locks(provider: Provider) -> Locks:
    """Ask every node, declared or recorded, who holds its lock; takes none and writes nothing."""
    with opened(provider.targets(), write=False) as sessions:
        seen = survey(provider, sessions)
        known = {
            target.node: target
            for target in (*provider.recorded_targets(seen.readings), *provider.targets())
            if target.node in seen.readings
        }
        asked = {node: sessions.open[node] for node in known}
        outcomes = for_each(asked, lambda _, session: session.call("marks")["lock"])
        sessions.give_up(outcomes.errors)
        unknown = dict(sessions.unknown)
    held = tuple(
        Holding(node, lock["holder"], float(lock["silent"]))
        for node, lock in outcomes.results.items()
        if lock is not None
    )
    free = tuple(node for node, lock in outcomes.results.items() if lock is None)
    return Locks(provider.cluster, held, free, unknown, tuple(known.values()))


def unlock(found: Locks, *, force: bool) -> Unlocked:
    """End the processes that hold the locks, unless their operator is there.

    Arguments:
        found: As `locks` returned it: whoever took a lock since keeps it.
        force: End them even though their operator is there.
    """
    held = {holding.node: holding for holding in found.held if force or holding.abandoned}
    targets = [target for target in found.targets if target.node in held]
    with opened(targets, write=True) as sessions:
        outcomes = for_each(
            dict(sessions.open),
            lambda node, session: session.call(
                "unlock", {"pid": held[node].holder.get("pid"), "force": force}, deadline=UNLOCK_DEADLINE
            )["ended"],
        )
        errors = {**sessions.unknown, **outcomes.errors}
    ended = {
        node: tuple(f"{process['command']} ({process['pid']})" for process in processes)
        for node, processes in outcomes.results.items()
    }
    return Unlocked(ended, errors)
