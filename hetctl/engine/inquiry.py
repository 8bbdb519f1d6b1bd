"""The operations behind the commands that only look: status, logs, ask."""

from __future__ import annotations

import difflib
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hetctl.engine.examine import survey
from hetctl.engine.parallel import for_each
from hetctl.engine.sessions import Sessions, opened
from hetctl.errors import ExitCode, HetctlError, UsageError
from hetctl.resources.base import Desired
from hetctl.resources.provider import Provider, Target
from hetctl.resources.view import (
    Answer,
    JournalLine,
    JournalSource,
    PlacementStatus,
    Question,
)
from hetctl.transport.base import Session


@dataclass(frozen=True, slots=True)
class StatusResult:
    """How the cluster is.

    Arguments:
        cluster: Its name.
        placements: In file order.
        unknown: Nodes that could not be read, and why.
        nodes: All nodes, read or not.
        codes: Every exit code that holds.
    """

    cluster: str
    placements: tuple[PlacementStatus, ...]
    unknown: Mapping[str, HetctlError]
    nodes: frozenset[str]
    codes: tuple[ExitCode, ...]


def status(provider: Provider) -> StatusResult:
    """Ask every node, one exec each, how its part of the placements is; takes no lock and writes nothing."""
    with opened(provider.targets(), write=False) as sessions:
        seen = survey(provider, sessions)
        state = provider.desired(seen)
        wanted: dict[str, list[Desired]] = {}
        for desired in state.resources:
            wanted.setdefault(desired.node, []).append(desired)

        def ask_part(node: str, reading: Any) -> Any:
            return provider.status_part(sessions.open[node], reading, wanted.get(node, []))

        parts = for_each(dict(seen.readings), ask_part)
        sessions.give_up(parts.errors)
        placements = provider.status(seen, state, parts.results)
        unknown = dict(sessions.unknown)
    codes = [ExitCode.DONE]
    if unknown:
        codes.append(ExitCode.UNREACHABLE)
    if not all(placement.health.healthy for placement in placements):
        codes.append(ExitCode.UNHEALTHY)
    nodes = frozenset((*seen.readings, *unknown))
    return StatusResult(provider.cluster, placements, unknown, nodes, tuple(codes))


def check_node_names(names: Iterable[str], known: Collection[str]) -> None:
    """Raise UsageError for a name given with `--allow-unreachable` that is no node's."""
    for name in sorted(set(names) - set(known)):
        near = difflib.get_close_matches(name, known, n=1)
        raise UsageError(
            f"there is no node {name!r}",
            where="--allow-unreachable",
            fix=f"did you mean {near[0]!r}?" if near else f"the nodes are {', '.join(sorted(known))}",
        )


def chosen_placement(provider: Provider, name: str | None) -> str:
    """Return the placement a command is about: the one named, or the only one there is.

    Raises:
        UsageError: There is no such placement, or several and none was named.
    """
    known = provider.placements
    if name is None and len(known) == 1:
        return known[0]
    if name in known:
        return name
    what = f"there is no placement {name!r}" if name is not None else "which placement?"
    raise UsageError(
        what,
        where=str(provider.manifest),
        why=f"the manifest declares {', '.join(known) or 'none'}",
        fix="name one of them" if known else "declare one",
    )


def ask(provider: Provider, placement: str, question: Question, emit: Callable[[str], None]) -> Answer:
    """Put a question to a placement from the node its server stands on, and return the answer.

    Raises:
        HetctlError: The node could not be reached or the server did not answer.
    """
    head = provider.head(placement)
    with opened(_only(provider, {head}), write=False) as sessions:
        session = _session(sessions, head)
        return provider.ask(session, provider.read(session), placement, question, emit)


def logs(
    provider: Provider,
    placement: str,
    *,
    lines: int,
    follow: bool,
    emit: Callable[[JournalSource, JournalLine], None],
) -> Mapping[str, HetctlError]:
    """Emit the journals of a placement's units and return the nodes that could not be read.

    Without `follow`, the last `lines` entries of each unit, merged by the nodes' clocks. With it, entries as
    they come until the caller is interrupted; each unit has a session of its own then.

    Arguments:
        provider: The cluster.
        placement: A declared one.
        lines: How many entries of each unit.
        follow: Go on for ever.
        emit: Called from this thread only.
    """
    sources = provider.journal_sources(placement)
    if follow:
        return _follow(provider, {f"{index}": source for index, source in enumerate(sources)}, lines, emit)
    with opened(_only(provider, {source.node for source in sources}), write=False) as sessions:
        by_node = {node: [source for source in sources if source.node == node] for node in sessions.open}

        def collect(node: str, here: list[JournalSource]) -> list[tuple[JournalSource, JournalLine]]:
            found: list[tuple[JournalSource, JournalLine]] = []
            for source in here:
                into = _collector(source, found)
                provider.journal(sessions.open[node], source, lines=lines, follow=False, emit=into)
            return found

        outcomes = for_each(by_node, collect)
        unknown = {**sessions.unknown, **outcomes.errors}
    entries = [entry for found in outcomes.results.values() for entry in found]
    for source, line in sorted(entries, key=lambda entry: entry[1].time):
        emit(source, line)
    return unknown


def _collector(
    source: JournalSource, found: list[tuple[JournalSource, JournalLine]]
) -> Callable[[JournalLine], None]:
    return lambda line: found.append((source, line))


def _follow(
    provider: Provider,
    sources: Mapping[str, JournalSource],
    lines: int,
    emit: Callable[[JournalSource, JournalLine], None],
) -> Mapping[str, HetctlError]:
    arrived: queue.SimpleQueue[tuple[JournalSource, JournalLine | BaseException | None]] = queue.SimpleQueue()
    targets = {target.node: target for target in provider.targets()}
    own = [
        Target(name, targets[source.node].destination, targets[source.node].open)
        for name, source in sources.items()
    ]
    unknown: dict[str, HetctlError] = {}

    def watch(name: str, source: JournalSource) -> None:
        try:
            provider.journal(
                sessions.open[name],
                source,
                lines=lines,
                follow=True,
                emit=lambda line: arrived.put((source, line)),
            )
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            arrived.put((source, error))
        else:
            arrived.put((source, None))

    with opened(own, write=False) as sessions:
        unknown.update({sources[name].node: error for name, error in sessions.unknown.items()})
        for name in sessions.open:
            threading.Thread(target=watch, args=(name, sources[name]), daemon=True).start()
        watching = len(sessions.open)
        while watching:
            source, entry = arrived.get()
            if isinstance(entry, JournalLine):
                emit(source, entry)
                continue
            watching -= 1
            if isinstance(entry, HetctlError):
                unknown[source.node] = entry
            elif entry is not None:
                raise entry
    return unknown


def _only(provider: Provider, nodes: set[str]) -> list[Target]:
    return [target for target in provider.targets() if target.node in nodes]


def _session(sessions: Sessions, node: str) -> Session:
    if node in sessions.unknown:
        raise sessions.unknown[node]
    return sessions.open[node]
