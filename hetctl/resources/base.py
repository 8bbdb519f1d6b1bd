"""What every kind of resource shares: desired and observed state, changes, steps.

A kind is one module that implements `Kind` and one line in `hetctl.resources.registry`. The engine handles
these values without knowing any kind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from hetctl.errors import Position
from hetctl.transport.base import Json, Session

Address = str
"""`kind/name@node` or `kind/name`: how people and marks name a resource."""


def digest(value: Json) -> str:
    """Return the sha256 (hex) of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Action(StrEnum):
    """What a plan does to one resource."""

    NONE = "none"
    CREATE = "create"
    UPDATE = "update"
    RESTART = "restart"  # nothing about it changes, but something it works with does
    RENAME = "rename"  # it stays as it is and is remembered under another name
    REMOVE = "remove"
    FORGET = "forget"  # no longer declared on a node that could not be read: stays recorded
    UNKNOWN = "unknown"
    BLOCKED = "blocked"  # something we did not make is in the way


PENDING = frozenset({Action.CREATE, Action.UPDATE, Action.RESTART, Action.RENAME, Action.REMOVE})
"""Actions that do something."""


class Cost(StrEnum):
    """What a change interrupts, from least to most."""

    NOTHING = "nothing"
    SERVICE_RESTART = "service restart"
    MODEL_RELOAD = "model reload"
    COLD_RESTART = "VM cold restart"
    HOST_REBOOT = "host reboot"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a resource changes.

    Arguments:
        text: Short phrase such as `context 16384 -> 32768` or `unit file was edited`.
        position: The manifest line that asks for it; None when the node itself drifted.
        drift: True when the node differs from what was applied, not the manifest.
    """

    text: str
    position: Position | None = None
    drift: bool = False


@dataclass(frozen=True, slots=True)
class Desired:
    """One resource as the manifest wants it.

    Arguments:
        address: Its name, unique in the cluster.
        kind: Which `Kind` handles it.
        node: The node it stands on.
        spec: Everything that defines it, secrets excepted. What the mark stores and what is compared.
        depends_on: Addresses that must be in place first.
        gang: Placement it belongs to; its members stop and start together.
        position: The manifest line that declares it.
        explain: For keys of `spec`, the manifest line each came from.
        secrets: Name to value: never stored, printed or compared in clear.
        replaces: Kind and name of what may hold its place until it starts; None for nothing.
    """

    address: Address
    kind: str
    node: str
    spec: Mapping[str, Json]
    depends_on: tuple[Address, ...] = ()
    gang: str | None = None
    position: Position | None = None
    explain: Mapping[str, Position] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    replaces: tuple[str, str] | None = None

    @property
    def spec_hash(self) -> str:
        """Digest of `spec`."""
        return digest(dict(self.spec))


@dataclass(frozen=True, slots=True)
class Mark:
    """What a node remembers about a resource that hetctl made there."""

    cluster: str
    address: Address
    kind: str
    node: str
    spec: Mapping[str, Json]
    spec_hash: str
    generation: int
    depends_on: tuple[Address, ...] = ()
    gang: str | None = None
    objects: tuple[Mapping[str, Json], ...] = ()
    """Objects of the node it owns, in the agent's `observe` form, with what they looked like when made."""
    facts: Mapping[str, Json] = field(default_factory=dict)
    """What was learned while making it: chosen port, protocol triple, secret fingerprints, ..."""
    stored: Mark | None = None
    """The mark under an earlier name that still lies on the node: what it says stands until that is gone."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One resource as a node has it.

    Arguments:
        mark: The mark, or None when hetctl never made it there.
        states: The agent's answer to `observe`, one state for each requested object, in order.
        unknown: Why it could not be read; empty when it was.
    """

    mark: Mark | None
    states: tuple[Mapping[str, Json], ...] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a plan."""

    address: Address
    kind: str
    node: str
    action: Action
    desired: Desired | None = None
    mark: Mark | None = None
    reasons: tuple[Reason, ...] = ()
    cost: Cost = Cost.NOTHING
    details: tuple[str, ...] = ()
    """What a person wants to see of it, such as `-c 32768 -> 65536 (2 slots x 32768)`."""
    word: str = ""
    """What people call it where the action says too little: `stop`, `start`."""
    fix: str = ""
    """For BLOCKED: the command that clears the way."""
    gang: str | None = None
    depends_on: tuple[Address, ...] = ()

    @property
    def pending(self) -> bool:
        """True when applying would do something."""
        return self.action in PENDING


class Progress(Protocol):
    """Where a step says how it is going."""

    def __call__(
        self, message: str, *, done: float | None = None, total: float | None = None, unit: str = ""
    ) -> None:
        """Report `message`, optionally with how much of how much of `unit` is done."""


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a running step may use.

    Arguments:
        sessions: The open session of each node that was reached.
        progress: Reports how it is going.
        interrupted: True once the user asked to stop; long steps that can be resumed raise Interrupted then.
    """

    sessions: Mapping[str, Session]
    progress: Progress
    interrupted: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Step:
    """A unit of work that runs wholly or fails.

    Arguments:
        name: Unique in the plan, such as `start server/chat`.
        address: The resource it works for.
        node: The node it keeps busy: at most one step runs on a node at a time.
        needs: Names of steps that must have succeeded before.
        run: Does it. Raises HetctlError when it could not.
        interruptible: False for steps that must run to their end once their gang started to switch.
        after: Names of steps that must have ended before, successfully or not.
        also: Other nodes whose sessions it uses, kept busy as well (a copy from node to node).
        rescues: Names of steps. It runs only when one of them began and not all succeeded, once all have
            ended; otherwise it is not needed and nobody hears of it.
        switch: What it is switched together with; its resource alone when empty.
    """

    name: str
    address: Address
    node: str
    run: Callable[[StepContext], None]
    needs: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    interruptible: bool = True
    also: frozenset[str] = frozenset()
    rescues: frozenset[str] = frozenset()
    switch: str = ""


class Kind(Protocol):
    """What the planner asks about one kind of resource. All three are pure."""

    name: str

    def objects(self, desired: Desired) -> Sequence[Mapping[str, Json]]:
        """Return the node objects this resource will own, for the agent's `observe`."""

    def compare(self, desired: Desired, observed: Observed) -> Change:
        """Return the change that turns `observed` into `desired` (action NONE when there is none)."""

    def remove(self, mark: Mark, observed: Observed) -> Change:
        """Return the change that removes what `mark` describes."""


def unknown_change(desired: Desired, why: str) -> Change:
    """Return the change for a resource whose node could not be read."""
    return Change(
        address=desired.address,
        kind=desired.kind,
        node=desired.node,
        action=Action.UNKNOWN,
        desired=desired,
        reasons=(Reason(why),),
        gang=desired.gang,
        depends_on=desired.depends_on,
    )


def changed_keys(old: Mapping[str, Json], new: Mapping[str, Json]) -> list[str]:
    """Return the top-level keys whose values differ, sorted."""
    missing: Any = object()
    return sorted(key for key in {*old, *new} if old.get(key, missing) != new.get(key, missing))
