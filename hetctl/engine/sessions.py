"""Open and close the sessions of many nodes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hetctl.engine.parallel import for_each
from hetctl.errors import HetctlError
from hetctl.resources.provider import Target
from hetctl.transport.base import Session


@dataclass(slots=True)
class Sessions:
    """The open sessions by node, and the nodes that could not be opened.

    Arguments:
        open: One session a node.
        unknown: Nodes that could not be reached, and why.
    """

    open: dict[str, Session] = field(default_factory=dict)
    unknown: dict[str, HetctlError] = field(default_factory=dict)

    def add(self, targets: Sequence[Target], *, write: bool) -> None:
        """Open a session to each target, all at once: one exec a node."""

        def connect(node: str, target: Target) -> None:
            # Registered from the thread that opened it: an interrupt must not lose track of a live agent.
            self.open[node] = target.open(write)

        outcomes = for_each({target.node: target for target in targets}, connect)
        self.unknown.update(outcomes.errors)

    def give_up(self, errors: Mapping[str, HetctlError]) -> None:
        """Close the sessions of nodes that failed to answer: they are unknown from here on."""
        for node, error in errors.items():
            self.unknown[node] = error
            self.open.pop(node).close()

    def close(self) -> None:
        """End every agent, which frees the locks they hold; safe to call twice."""
        sessions, self.open = self.open, {}
        for_each(sessions, lambda _, session: session.close())


@contextmanager
def opened(targets: Sequence[Target], *, write: bool) -> Iterator[Sessions]:
    """Open the sessions of `targets` and close them at the end, whatever happens."""
    sessions = Sessions()
    try:
        sessions.add(targets, write=write)
        yield sessions
    finally:
        sessions.close()
