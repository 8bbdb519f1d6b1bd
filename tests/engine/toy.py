"""A cluster of dictionaries: real plans, locks and runs without a network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hetctl.errors import LockHeld, NodeUnreachable, OperationFailed, Refused, SessionLost
from hetctl.resources.base import (
    Action,
    Address,
    Change,
    Cost,
    Desired,
    Mark,
    Observed,
    Reason,
    Step,
    StepContext,
    digest,
)
from hetctl.resources.provider import (
    DesiredState,
    DeviceRow,
    GangSummary,
    NodeObservation,
    Plan,
    Purpose,
    Survey,
    Target,
    Verb,
)
from hetctl.resources.view import (
    Answer,
    Endpoint,
    Health,
    JournalLine,
    JournalSource,
    MemberStatus,
    PlacementStatus,
    Question,
)
from hetctl.rules.finding import Finding

WRITING = {"lock", "unlock", "prepare", "make", "unmake"}


@dataclass
class ToyNode:
    """A machine: what stands on it, what hetctl remembers there."""

    store: dict[Address, Mapping[str, Any]] = field(default_factory=dict)
    marks: dict[Address, Mark] = field(default_factory=dict)
    damaged: dict[Address, str] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    holder: str = ""
    prepared: int = 0
    pid: int = 4711
    silent: float = 0.0


@dataclass
class ToyWorld:
    """All machines, and what goes wrong with them."""

    nodes: dict[str, ToyNode]
    unreachable: set[str] = field(default_factory=set)
    failing: set[Address] = field(default_factory=set)
    breaking: set[Address] = field(default_factory=set)
    opened: list[tuple[str, bool]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    made: list[Address] = field(default_factory=list)
    before_lock: Callable[[], None] = lambda: None

    def open(self, node: str, write: bool) -> ToySession:
        self.opened.append((node, write))
        if node in self.unreachable:
            raise NodeUnreachable(f"no connection to {node}", where=node, why="timed out")
        return ToySession(self, node, write)


@dataclass
class ToySession:
    """One agent; refuses to change anything when it is read-only, and never runs two requests at once."""

    world: ToyWorld
    node: str
    write: bool
    peer_address: str = "127.0.0.1"
    calls: list[str] = field(default_factory=list)
    busy: threading.Lock = field(default_factory=threading.Lock)
    holds: bool = False
    ended: bool = False

    def call(self, operation: str, arguments: Mapping[str, Any] | None = None, **_: Any) -> dict[str, Any]:
        if not self.busy.acquire(blocking=False):
            raise AssertionError("two threads in one session")
        try:
            return self._call(operation, arguments or {})
        finally:
            self.busy.release()

    def _call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append(operation)
        here = self.world.nodes[self.node]
        if self.ended:
            raise SessionLost("the session is closed", where=self.node)
        if operation in WRITING and not self.write:
            raise Refused(f"{operation} in a read-only session", where=self.node)
        if operation == "marks":
            lock = {"holder": {"who": here.holder, "pid": here.pid}, "silent": here.silent}
            return {"lock": lock if here.holder else None}
        if operation == "unlock":
            return self._unlock(here, **arguments)
        if operation == "lock":
            self.world.before_lock()
            if here.holder:
                raise LockHeld("locked", where=self.node, why=f"held by {here.holder}")
            here.holder, self.holds = arguments["holder"]["who"], True
        elif operation in WRITING:
            assert self.holds, f"{operation} without the lock"
            getattr(self, f"_{operation}")(here, **arguments)
        return {}

    def _unlock(self, here: ToyNode, pid: int, force: bool) -> dict[str, Any]:
        assert pid == here.pid
        if here.silent < 45 and not force:
            raise Refused("whoever holds the lock is still there", where=self.node)
        here.holder = ""
        return {"ended": [{"pid": pid, "command": "python3"}]}

    def _prepare(self, here: ToyNode) -> None:
        here.prepared += 1

    def _make(self, here: ToyNode, mark: Mark) -> None:
        if mark.address in self.world.failing:
            raise OperationFailed(f"{mark.address} does not want to", where=self.node, why="it is a toy")
        if mark.address in self.world.breaking:
            raise SessionLost("the connection went away", where=self.node)
        for address in mark.depends_on:
            assert any(address in node.marks for node in self.world.nodes.values()), f"{address} comes first"
        self.world.made.append(mark.address)
        here.store[mark.address] = mark.spec
        here.marks[mark.address] = mark

    def _unmake(self, here: ToyNode, address: Address) -> None:
        if address in self.world.failing:
            raise OperationFailed(f"{address} does not want to go", where=self.node)
        here.store.pop(address, None)
        here.marks.pop(address, None)

    def close(self) -> None:
        self.ended = True
        self.world.closed.append(self.node)
        if self.holds:
            self.world.nodes[self.node].holder, self.holds = "", False


@dataclass(frozen=True)
class ToyReading:
    marks: Mapping[Address, Mark]
    damaged: Mapping[Address, str]
    members: tuple[str, ...]


class ToyKind:
    """A value under a key."""

    name = "toy"

    def objects(self, desired: Desired) -> Sequence[Mapping[str, Any]]:
        return [{"type": "toy", "address": desired.address}]

    def compare(self, desired: Desired, observed: Observed) -> Change:
        reasons: tuple[Reason, ...]
        if desired.spec.get("foreign"):
            action, reasons = Action.BLOCKED, (Reason("something of somebody else is in the way"),)
        elif observed.mark is None:
            action, reasons = Action.CREATE, (Reason("not there yet", desired.position),)
        elif observed.mark.spec_hash != desired.spec_hash:
            action, reasons = Action.UPDATE, (Reason("spec changed", desired.position),)
        elif not observed.states or observed.states[0] != dict(desired.spec):
            action, reasons = Action.UPDATE, (Reason("it was changed on the node", drift=True),)
        else:
            action, reasons = Action.NONE, ()
        return Change(
            address=desired.address,
            kind=self.name,
            node=desired.node,
            action=action,
            desired=desired,
            mark=observed.mark,
            reasons=reasons,
            cost=Cost.MODEL_RELOAD if desired.gang and action is not Action.NONE else Cost.NOTHING,
            fix=f"move {desired.address} away" if action is Action.BLOCKED else "",
        )

    def remove(self, mark: Mark, observed: Observed) -> Change:  # noqa: ARG002 - a toy has nothing to look at
        return Change(
            mark.address, self.name, mark.node, Action.REMOVE, reasons=(Reason("not declared any more"),)
        )


@dataclass
class ToyCluster:
    """A provider over a `ToyWorld`."""

    world: ToyWorld
    resources: tuple[Desired, ...]
    declared: tuple[str, ...]
    cluster: str = "toybox"
    manifest: Path = Path("cluster.yaml")
    state: DesiredState = field(default_factory=lambda: DesiredState(resources=()))
    answer: str = "hello"
    worries: tuple[Finding, ...] = ()
    extra_steps: tuple[Step, ...] = ()
    restarts_with: Mapping[Address, Address] = field(default_factory=dict)
    """Resources that restart when another one changes."""
    kinds: Mapping[str, ToyKind] = field(default_factory=lambda: {"toy": ToyKind()})

    @property
    def manifest_digest(self) -> str:
        return digest([[desired.address, desired.spec_hash] for desired in self.resources])

    @property
    def placements(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(desired.gang for desired in self.resources if desired.gang))

    def _target(self, node: str) -> Target:
        return Target(node, f"ops@{node}", lambda write: self.world.open(node, write))

    def targets(self) -> Sequence[Target]:
        return [self._target(node) for node in self.declared]

    def recorded_targets(self, readings: Mapping[str, Any]) -> Sequence[Target]:
        known = {member for reading in readings.values() for member in reading.members}
        return [self._target(node) for node in sorted(known - set(self.declared))]

    def prepare(self, session: Any) -> None:
        session.call("prepare")

    def read(self, session: Any) -> ToyReading:
        session.call("read")
        here = self.world.nodes[session.node]
        return ToyReading(dict(here.marks), dict(here.damaged), here.members)

    def understood(self, survey: Survey) -> Survey:
        return survey

    def salvaged(self, survey: Survey) -> Survey:
        return survey

    def concerns(self, survey: Survey) -> Sequence[Finding]:  # noqa: ARG002 - a toy worries about nothing
        return self.worries

    def asked(self, verb: Verb, placement: str) -> tuple[ToyCluster, frozenset[str]]:
        """A toy runs when its value is not `stopped`."""
        spec = {"value": "stopped"} if verb is Verb.STOP else {"value": "running"}
        resources = tuple(
            replace(item, spec=spec) if item.gang == placement else item for item in self.resources
        )
        return replace(self, resources=resources), frozenset({placement})

    def desired(self, survey: Survey) -> DesiredState:  # noqa: ARG002 - a toy's wishes rest on no facts
        return replace(self.state, resources=self.resources)

    def observe(
        self, session: Any, reading: ToyReading, desired: Sequence[Desired], undeclared: Sequence[Mark]
    ) -> NodeObservation:
        session.call("observe")
        store = self.world.nodes[session.node].store

        def look(address: Address) -> Observed:
            states = (dict(store[address]),) if address in store else ()
            return Observed(reading.marks.get(address), states)

        return NodeObservation(
            {item.address: look(item.address) for item in desired},
            {mark.address: look(mark.address) for mark in undeclared},
        )

    def together(self, changes: Sequence[Change]) -> Sequence[Change]:
        changing = {change.address for change in changes if change.action is Action.UPDATE}
        changes = [
            replace(change, action=Action.RESTART)
            if change.action is Action.NONE and self.restarts_with.get(change.address) in changing
            else change
            for change in changes
        ]
        culprits = {
            change.gang: change
            for change in changes
            if change.action in {Action.CREATE, Action.UPDATE} and change.gang
        }
        return [
            replace(
                change,
                action=Action.RESTART,
                reasons=(Reason(f"because {culprits[change.gang].address} changes"),),
            )
            if change.action is Action.NONE and change.gang in culprits
            else change
            for change in changes
        ]

    def summaries(self, plan: Plan, survey: Survey) -> tuple[GangSummary, ...]:  # noqa: ARG002 - as `desired`
        gangs = dict.fromkeys(change.gang for change in plan.pending if change.gang)
        return tuple(
            GangSummary(gang, Action.UPDATE, outage="model reload", cost=Cost.MODEL_RELOAD, seconds=70.0,
                        rows=(DeviceRow("a/cpu", "4"),))
            for gang in gangs
        )  # fmt: skip

    def steps(self, plan: Plan, chosen: Sequence[Change], survey: Survey) -> Sequence[Step]:  # noqa: ARG002 - as above
        places = {change.address: change for change in chosen if change.action is not Action.REMOVE}
        leaving = [change for change in chosen if change.action is Action.REMOVE]
        steps = [
            Step(
                name=f"make {change.address}",
                address=change.address,
                node=change.node,
                run=self._maker(change, plan.cluster),
                needs=frozenset(f"make {address}" for address in change.depends_on if address in places),
                interruptible=change.gang is None,
            )
            for change in places.values()
        ]
        steps += [
            Step(
                name=f"remove {change.address}@{change.node}",
                address=change.address,
                node=change.node,
                run=self._unmaker(change),
                needs=frozenset(
                    f"remove {user.address}@{user.node}"
                    for user in leaving
                    if change.address in user.depends_on
                ),
            )
            for change in leaving
        ]
        return [*steps, *self.extra_steps]

    def _maker(self, change: Change, cluster: str) -> Callable[[StepContext], None]:
        assert change.desired is not None
        desired = change.desired
        mark = Mark(
            cluster,
            desired.address,
            desired.kind,
            desired.node,
            desired.spec,
            desired.spec_hash,
            (change.mark.generation if change.mark else 0) + 1,
            desired.depends_on,
            desired.gang,
        )

        def make(context: StepContext) -> None:
            context.progress("making", done=1, total=2, unit="blocks")
            context.sessions[desired.node].call("make", {"mark": mark})

        return make

    def _unmaker(self, change: Change) -> Callable[[StepContext], None]:
        def unmake(context: StepContext) -> None:
            context.sessions[change.node].call("unmake", {"address": change.address})

        return unmake

    def is_model(self, mark: Mark) -> bool:
        return mark.address.startswith("model/")

    def status_part(self, session: Any, reading: ToyReading, desired: Sequence[Desired]) -> Any:
        session.call("status")
        return {item.address: item.address in reading.marks for item in desired}

    def status(
        self, survey: Survey, state: DesiredState, parts: Mapping[str, Any]
    ) -> tuple[PlacementStatus, ...]:
        result = []
        for placement in self.placements:
            members = tuple(
                MemberStatus(item.address, item.node, self._health(item, survey, parts))
                for item in state.resources
                if item.gang == placement
            )
            worst = next((member.health for member in members if not member.health.healthy), Health.READY)
            endpoint = Endpoint(placement, "http://10.0.0.5:8080/v1", placement, "env CHAT_KEY")
            result.append(PlacementStatus(placement, worst, members=members, endpoint=endpoint))
        return tuple(result)

    def _health(self, item: Desired, survey: Survey, parts: Mapping[str, Any]) -> Health:
        if item.node in survey.unknown:
            return Health.UNKNOWN
        return Health.READY if parts[item.node].get(item.address) else Health.ABSENT

    def journal_sources(self, placement: str) -> Sequence[JournalSource]:
        return [
            JournalSource(item.node, item.address, f"hetctl-{item.address.replace('/', '-')}.service")
            for item in self.resources
            if item.gang == placement
        ]

    def journal(
        self,
        session: Any,
        source: JournalSource,
        *,
        lines: int,
        follow: bool,
        emit: Callable[[JournalLine], None],
    ) -> None:
        session.call("journal")
        for index in range(lines):
            emit(JournalLine(float(index), f"{source.address} line {index}"))
        if follow:
            emit(JournalLine(99.0, f"{source.address} goes on"))

    def head(self, placement: str) -> str:
        return next(item.node for item in reversed(self.resources) if item.gang == placement)

    def ask(
        self,
        session: Any,
        reading: ToyReading,
        placement: str,
        question: Question,
        emit: Callable[[str], None],
    ) -> Answer:
        session.call("ask")
        assert reading is not None
        assert question.prompt
        for word in self.answer.split():
            emit(f"{word} ")
        return Answer(f"{self.answer} ", placement, 3, len(self.answer.split()), 0.5)


def toy(address: Address, node: str, value: int = 0, **more: Any) -> Desired:
    """Return a desired toy."""
    spec = {"value": value, **more.pop("spec", {})}
    return Desired(address=address, kind="toy", node=node, spec=spec, **more)


def cluster_of(*resources: Desired, nodes: Sequence[str] = (), **more: Any) -> ToyCluster:
    """Return a fresh cluster that declares `resources` on their nodes."""
    names = tuple(dict.fromkeys([*nodes, *(item.node for item in resources)]))
    return ToyCluster(ToyWorld({name: ToyNode() for name in names}), resources, names, **more)


def redeclared(cluster: ToyCluster, *resources: Desired, nodes: Sequence[str] | None = None) -> ToyCluster:
    """Return the same machines under another manifest."""
    names = tuple(dict.fromkeys(item.node for item in resources)) if nodes is None else tuple(nodes)
    for name in names:
        cluster.world.nodes.setdefault(name, ToyNode())
    return replace(cluster, resources=resources, declared=names)


@dataclass
class Yes:
    """Agrees to everything and remembers what it saw."""

    answer: bool = True
    seen: list[tuple[Plan, bool]] = field(default_factory=list)
    waited: list[LockHeld] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def agreed(self, plan: Plan, *, changed: bool) -> bool:
        self.seen.append((plan, changed))
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return self.answer

    def waiting(self, held: LockHeld) -> None:
        self.waited.append(held)


__all__ = ["Purpose", "ToyCluster", "ToyNode", "ToyWorld", "Yes", "cluster_of", "redeclared", "toy"]
