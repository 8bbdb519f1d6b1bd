"""The seam between the engine and a cluster: what a plan is made of, and who provides it.

The engine owns order, concurrency, consent and locks; a `Provider` (`hetctl.resources.cluster`) knows what
the manifest and the nodes mean. These types stand below the engine because the provider makes most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from hetctl.errors import HetctlError, Position
from hetctl.resources.base import (
    Action,
    Address,
    Change,
    Cost,
    Desired,
    Kind,
    Mark,
    Observed,
    Reason,
    Step,
    digest,
)
from hetctl.resources.view import Answer, Endpoint, JournalLine, JournalSource, PlacementStatus, Question
from hetctl.rules.finding import Finding
from hetctl.transport.base import Session


@dataclass(frozen=True, slots=True)
class Gate:
    """A reboot or a manual step that comes before the rest.

    Arguments:
        name: Such as `vm/pascal`.
        node: Where it has to happen.
        what: What has to be done, one sentence.
        fix: The command or the steps.
        after: What is planned once it is passed, as people read it, such as `worker/chat@pascal`.
    """

    name: str
    node: str
    what: str
    fix: str = ""
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """How nodes may be reached in this run.

    Arguments:
        accept_new_host_keys: Record an unknown host key without asking.
        confirm_host_key: Asked with (node, what to show); None where nobody can answer.
    """

    accept_new_host_keys: bool = False
    confirm_host_key: Callable[[str, str], bool] | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """One node and the way to it.

    Arguments:
        node: Name in the manifest or in the member record.
        destination: How a person names it: `ops@192.168.10.5`, `local`.
        open: Connects and starts the agent: one exec. Its argument says whether the session may change
            things. Raises a TransportError.
    """

    node: str
    destination: str
    open: Callable[[bool], Session]


class Reading(Protocol):
    """What the first requests of a session brought; the provider keeps facts in it as well."""

    @property
    def marks(self) -> Mapping[Address, Mark]:
        """Marks of this cluster on the node."""

    @property
    def damaged(self) -> Mapping[Address, str]:
        """Marks that could not be read, and why: unknown, so never removed."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What all nodes said.

    Arguments:
        readings: By node, declared or recorded.
        unknown: Nodes that could not be read, and why.
        undeclared: Nodes that only a member record knows: everything of ours there is to go.
        twins: Declared nodes that turned out to be the same machine as another one, by that one.
    """

    readings: Mapping[str, Any]
    unknown: Mapping[str, HetctlError] = field(default_factory=dict)
    undeclared: frozenset[str] = frozenset()
    twins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DesiredState:
    """Everything the manifest wants, given what the nodes said.

    Arguments:
        resources: Desired resources of readable and unreadable nodes alike.
        findings: What there is to say about them.
        gates: Reboots and manual steps that come first.
        endpoints: Where the declared placements answer.
    """

    resources: tuple[Desired, ...]
    findings: tuple[Finding, ...] = ()
    gates: tuple[Gate, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One line of a placement's card table; sizes in bytes, None where no estimate exists.

    Arguments:
        device: `node/card` as the manifest names it.
        layers: Such as `31` or `5+out`.
    """

    device: str
    layers: str
    weights: int | None = None
    kv: int | None = None
    compute: int | None = None
    free_after: int | None = None


@dataclass(frozen=True, slots=True)
class GangSummary:
    """What a plan means for one placement.

    Arguments:
        placement: Its name.
        position: Where the manifest declares it.
        action: What happens to it as a whole.
        reasons: Why.
        outage: What being down is made of, such as `model reload, RPC cache warm`; empty when it stays up.
        cost: The most costly thing that happens.
        seconds: Estimate of the time it is down; None when unknown.
        rows: The card table; empty when layers stay where they are.
    """

    placement: str
    action: Action
    position: Position | None = None
    reasons: tuple[Reason, ...] = ()
    outage: str = ""
    cost: Cost = Cost.NOTHING
    seconds: float | None = None
    rows: tuple[DeviceRow, ...] = ()


class Verb(StrEnum):
    """What a command asks of a placement."""

    START = "start"
    STOP = "stop"
    SWITCH = "switch"  # start it and stop those of its group
    RESTART = "restart"
    ROLLBACK = "rollback"  # to its previous generation


class Purpose(StrEnum):
    """Why a plan was made."""

    APPLY = "apply"
    DESTROY = "destroy"


@dataclass(frozen=True, slots=True)
class Plan:
    """What `diff` prints and `apply` executes.

    Arguments:
        cluster: Name of the cluster.
        manifest_digest: Of the manifest's content.
        purpose: Apply or destroy.
        changes: One for each desired resource and each one of ours that is not declared any more; ordered so
            that what others depend on comes first, removals last and in reverse.
        nodes_read: Nodes that answered, sorted.
        nodes_unknown: Nodes that did not, and why.
        waits: (address, node) -> what a pending change waits for, such as `node pascal`: it is not executed.
        findings: As the provider found them.
        gates: As the provider found them.
        gangs: What the plan means for each placement it touches.
        targets: What the plan was limited to; empty for nothing.
        left_out: Pending changes that it does not hold for that reason.
    """

    cluster: str
    manifest_digest: str
    purpose: Purpose
    changes: tuple[Change, ...]
    nodes_read: tuple[str, ...]
    nodes_unknown: Mapping[str, str] = field(default_factory=dict)
    waits: Mapping[tuple[Address, str], str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    gates: tuple[Gate, ...] = ()
    gangs: tuple[GangSummary, ...] = ()
    targets: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def pending(self) -> tuple[Change, ...]:
        """Changes that would do something, waiting or not."""
        return tuple(change for change in self.changes if change.pending)

    @property
    def removals(self) -> tuple[Change, ...]:
        """Pending removals."""
        return tuple(change for change in self.changes if change.action is Action.REMOVE)

    def waits_for(self, change: Change) -> str:
        """Return what keeps a change from being executed; empty for nothing."""
        return self.waits.get((change.address, change.node), "")

    def executable(self, *, prune: bool) -> tuple[Change, ...]:
        """Return the pending changes that nothing holds back; removals only with `prune`."""
        return tuple(
            change
            for change in self.pending
            if not self.waits_for(change) and (prune or change.action is not Action.REMOVE)
        )

    @property
    def fingerprint(self) -> str:
        """Digest of everything the plan rests on: two plans with the same one do the same."""
        return digest(
            {
                "cluster": self.cluster,
                "manifest": self.manifest_digest,
                "purpose": self.purpose,
                "unknown": sorted(self.nodes_unknown),
                "waits": sorted([*key, why] for key, why in self.waits.items()),
                "changes": [
                    [
                        change.address,
                        change.node,
                        change.action,
                        change.desired.spec_hash if change.desired else None,
                        [change.mark.spec_hash, change.mark.generation] if change.mark else None,
                        [reason.text for reason in change.reasons],
                    ]
                    for change in self.changes
                ],
            }
        )


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """What one node has of what was asked about.

    Arguments:
        desired: For the address of each desired resource of the node.
        undeclared: For the address of each mark that no desired resource of the node claims.
    """

    desired: Mapping[Address, Observed]
    undeclared: Mapping[Address, Observed] = field(default_factory=dict)


class Provider(Protocol):
    """A cluster as the engine sees it.

    Methods with a `session` parameter are called for many nodes at once, each in its own thread, and use no
    other session; a TransportError from them makes that one node unknown. All others are pure.
    """

    @property
    def cluster(self) -> str:
        """Name of the cluster."""

    @property
    def manifest(self) -> Path:
        """The file or directory as the user named it."""

    @property
    def manifest_digest(self) -> str:
        """Digest of the manifest's content and of the files it names."""

    @property
    def placements(self) -> tuple[str, ...]:
        """Names of the declared placements in file order."""

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of its resources by name."""

    def targets(self) -> Sequence[Target]:
        """Return the declared nodes."""

    def recorded_targets(self, readings: Mapping[str, Any]) -> Sequence[Target]:
        """Return the machines that member records name and that no declared node is."""

    def prepare(self, session: Session) -> None:
        """Make a node that holds something of ours ready for changes; the lock is held already."""

    def read(self, session: Session) -> Reading:
        """Return facts, marks and whatever else the desired state is worked out from."""

    def understood(self, survey: Survey) -> Survey:
        """Return what the nodes said in the names of the manifest, each machine once.

        Asked whenever nodes were read; all else is asked with what it returns. Nodes it leaves out or calls
        unknown take no further part.
        """

    def salvaged(self, survey: Survey) -> Survey:
        """Return the same with damaged marks made anew from their names; asked only to remove everything."""

    def concerns(self, survey: Survey) -> Sequence[Finding]:
        """Return what there is to say about the nodes whatever is to be done with them."""

    def asked(self, verb: Verb, placement: str) -> tuple[Provider, frozenset[str]]:
        """Return the same cluster as a command wants a placement, and the placements that concerns.

        Raises:
            UsageError: The manifest forbids it.
        """

    def desired(self, survey: Survey) -> DesiredState:
        """Return what the manifest wants; not asked when the purpose is to destroy."""

    def observe(
        self, session: Session, reading: Any, desired: Sequence[Desired], undeclared: Sequence[Mark]
    ) -> NodeObservation:
        """Return what a node has of the resources that stand on it, read-only and in one batch."""

    def together(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Return the same changes, with gang members that need none of their own turned to RESTART.

        Called by the planner after every resource was compared, before order and waits are worked out. Only
        the provider knows which changes stop a gang and which members that takes along.
        """

    def summaries(self, plan: Plan, survey: Survey) -> tuple[GangSummary, ...]:
        """Return what the plan means for each placement it touches."""

    def steps(self, plan: Plan, chosen: Sequence[Change], survey: Survey) -> Sequence[Step]:
        """Return the work that executes the `chosen` changes of `plan`, marks and member records included."""

    def is_model(self, mark: Mark) -> bool:
        """Return True for what `destroy --keep-models` leaves in place."""

    def status_part(self, session: Session, reading: Any, desired: Sequence[Desired]) -> Any:
        """Return what one node says about its part of the placements, read-only."""

    def status(
        self, survey: Survey, state: DesiredState, parts: Mapping[str, Any]
    ) -> tuple[PlacementStatus, ...]:
        """Return how the declared placements are, from the parts of the nodes that answered."""

    def journal_sources(self, placement: str) -> Sequence[JournalSource]:
        """Return the units of a declared placement, the server first."""

    def journal(
        self,
        session: Session,
        source: JournalSource,
        *,
        lines: int,
        follow: bool,
        emit: Callable[[JournalLine], None],
    ) -> None:
        """Emit the last `lines` entries, oldest first; with `follow`, go on until the session is closed."""

    def head(self, placement: str) -> str:
        """Return the node on which a declared placement's server stands."""

    def ask(
        self, session: Session, reading: Any, placement: str, question: Question, emit: Callable[[str], None]
    ) -> Answer:
        """Put one question to a placement from its server's node; emit the text as it comes."""


class Loader(Protocol):
    """Makes a provider from a manifest: `hetctl.resources.cluster.load_cluster`."""

    def __call__(self, manifest: Path, access: Access) -> Provider:
        """Load, check and resolve a manifest; no node is contacted. Raises ManifestInvalid."""
