"""The provider: one cluster as the engine sees it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hetctl.errors import Interrupted
from hetctl.facts.node import NodeFacts, parse_node_facts
from hetctl.manifest import load
from hetctl.manifest.references import Resolved, resolve
from hetctl.manifest.secrets import SecretRef
from hetctl.resources import asking, inspection, layout, scripts, summary
from hetctl.resources.activity import asked_states, runs
from hetctl.resources.arrangement import Inputs, ModelShape
from hetctl.resources.base import (
    Action,
    Address,
    Change,
    Cost,
    Desired,
    Kind,
    Mark,
    Step,
    StepContext,
    digest,
)
from hetctl.resources.compiling import CompileOrder, compile_build, jobs_for
from hetctl.resources.coupling import couple, restarted
from hetctl.resources.desired import desired_state
from hetctl.resources.desired_build import LOCAL
from hetctl.resources.headers import ModelFiles
from hetctl.resources.identity import departed, identity_findings, neighbours, understood, unreadable_marks
from hetctl.resources.provider import (
    Access,
    DesiredState,
    GangSummary,
    NodeObservation,
    Plan,
    Purpose,
    Survey,
    Target,
    Verb,
)
from hetctl.resources.reaching import declared_target, recorded_target
from hetctl.resources.reading import NodeReading, observe_node, read_node
from hetctl.resources.registry import KINDS
from hetctl.resources.renaming import declared_renames
from hetctl.resources.rollback import rolled_back
from hetctl.resources.salvage import salvaged
from hetctl.resources.steps import CompileStep, expand
from hetctl.resources.takeover import units_of
from hetctl.resources.topology import LOOPBACK
from hetctl.resources.view import (
    Answer,
    JournalLine,
    JournalSource,
    PlacementStatus,
    Question,
)
from hetctl.resources.work import Work, owned_paths, prepare
from hetctl.rules.files import check_files
from hetctl.rules.finding import Finding
from hetctl.rules.layer_counts import check_layer_counts
from hetctl.transport import secret_values
from hetctl.transport.base import Session
from hetctl.transport.local import LocalTransport
from hetctl.transport.session import AgentSession
from hetctl.transport.workstation import Workstation


def load_cluster(manifest: Path, access: Access) -> ClusterProvider:
    """Load, check and resolve a manifest; no node is contacted.

    Raises:
        ManifestInvalid: With every problem found.
    """
    resolved = resolve(load([manifest]))
    workstation = Workstation.from_environment(os.environ)
    models = ModelFiles(workstation)
    check_layer_counts(resolved, models.describe)
    return ClusterProvider(
        manifest=manifest, resolved=resolved, access=access, workstation=workstation, models=models
    )


def _claimed(plan: Plan) -> dict[str, frozenset[str]]:
    """Return for each node the units of what is declared there."""
    found: dict[str, frozenset[str]] = {}
    for change in plan.changes:
        if change.desired is not None:
            found[change.node] = found.get(change.node, frozenset()).union(units_of(change.desired.spec))
    return found


@dataclass(slots=True, kw_only=True)
class _Slots:
    """Answers that are worked out once."""

    operator: NodeFacts | None = None
    state: DesiredState | None = None


@dataclass(kw_only=True)
class ClusterProvider:
    """A cluster: its manifest, its nodes and what the two together mean.

    Arguments:
        manifest: The file or directory as the user named it.
        resolved: Its content with all references looked up.
        access: How nodes may be reached.
        workstation: The operator's machine.
        models: Describes the model files there.
        states: By placement `running` or `stopped`, where that is asked for instead of what would follow.
        order: What a command asks for, and of which placement; None for what the manifest says.
    """

    manifest: Path
    resolved: Resolved
    access: Access
    workstation: Workstation
    models: ModelFiles
    states: Mapping[str, str] = field(default_factory=dict)
    order: tuple[Verb, str] | None = None
    _known: _Slots = field(default_factory=_Slots)

    @property
    def cluster(self) -> str:
        """Name of the cluster."""
        name: str = self.resolved.cluster.name
        return name

    @cached_property
    def manifest_digest(self) -> str:
        """Digest of the manifest's content and of the files it names."""
        content = self.resolved.cluster.model_dump(mode="json", by_alias=True)
        files = {str(path): value for path, value in self._digests.items()}
        return digest({"manifest": content, "files": sorted(files.values())})

    @property
    def placements(self) -> tuple[str, ...]:
        """Names of the declared placements in file order."""
        return tuple(self.resolved.placements)

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of its resources by name."""
        return KINDS

    @cached_property
    def _digests(self) -> Mapping[Path, str]:
        used = {item.model for item in self.resolved.placements.values()}
        built = {item.build for item in self.resolved.placements.values()}
        paths = [
            *(self.resolved.models[name] for name in sorted(used)),
            *(self.resolved.archives[name] for name in sorted(built)),
        ]
        # A file that is gone has no digest: removing needs none, and `desired` says that it is missing.
        return {path: self.workstation.digest(path) if path.is_file() else "" for path in paths}

    @cached_property
    def _shapes(self) -> Mapping[str, ModelShape]:
        found = {}
        for name in sorted({item.model for item in self.resolved.placements.values()}):
            path = self.resolved.models[name]
            self.workstation.digest(path)  # known from here on, so that what the header says is remembered
            found[name] = ModelShape(self.models.describe(path), path.stat().st_size)
        return found

    # -- reaching nodes ------------------------------------------------------------------------------------

    def targets(self) -> Sequence[Target]:
        """Return the declared nodes."""
        return [declared_target(node, self.access) for node in self.resolved.nodes.values()]

    def recorded_targets(self, readings: Mapping[str, NodeReading]) -> Sequence[Target]:
        """Return the machines that member records name and that no declared node is."""
        nodes = self.resolved.nodes
        return [
            recorded_target(name, item, self.resolved.cluster, nodes, self.access)
            for name, item in departed(readings, nodes).items()
        ]

    def prepare(self, session: Session) -> None:
        """Bring what hetctl keeps for itself on a node up to date."""
        prepare(session)

    # -- reading and planning ------------------------------------------------------------------------------

    def read(self, session: Session) -> NodeReading:
        """Return facts, marks, records and routes of a node."""
        destinations = [node.rpc_address for node in self.resolved.nodes.values() if node.rpc_address]
        node = self.resolved.nodes.get(session.node)
        paths = [node.paths.models, node.paths.builds] if node is not None else []
        return read_node(
            session,
            cluster=self.cluster,
            destinations=destinations,
            paths=paths,
            predecessor=self.resolved.cluster.renamed_from or "",
        )

    def understood(self, survey: Survey) -> Survey:
        """Return what the nodes said in the names of the manifest, each machine once."""
        return understood(survey, self.resolved.nodes, declared_renames(self.resolved.cluster))

    def salvaged(self, survey: Survey) -> Survey:
        """Return the same with damaged marks made anew from their names."""
        found = {}
        for node, reading in survey.readings.items():
            declared = self.resolved.nodes.get(node)
            paths = layout.NodePaths()
            if declared is not None:
                paths = layout.NodePaths(builds=declared.paths.builds, models=declared.paths.models)
            found[node] = salvaged(reading, self.cluster, paths)
        return replace(survey, readings=found)

    def concerns(self, survey: Survey) -> Sequence[Finding]:
        """Return what there is to say about the nodes whatever is to be done with them."""
        source = self.resolved.cluster.source
        return [
            *unreadable_marks(survey.readings),
            *neighbours(survey.readings),
            *identity_findings(survey, self.resolved.nodes, lambda node: source.position(("nodes", node))),
        ]

    def asked(self, verb: Verb, placement: str) -> tuple[ClusterProvider, frozenset[str]]:
        """Return the same cluster as a command wants a placement, and the placements that concerns.

        Raises:
            UsageError: The manifest says that it is stopped, or it is in no group.
        """
        states = asked_states(self.resolved, verb, placement)
        wanted = replace(self, states=states, order=(verb, placement), _known=_Slots())
        return wanted, frozenset({placement, *states})

    def desired(self, survey: Survey) -> DesiredState:
        """Return what the manifest wants.

        Raises:
            ManifestInvalid: A file that is needed for it is missing.
            ModelUnreadable: A model file is damaged or of a kind that cannot be read.
        """
        check_files(self.resolved)
        built = sorted({item.build for item in self.resolved.placements.values()})
        archives = self.resolved.archives
        state = desired_state(
            Inputs(
                resolved=self.resolved,
                survey=survey,
                shapes=self._shapes,
                digests=self._digests,
                rpc_headers={name: self.workstation.source(archives[name]).rpc_header for name in built},
                scripts={name: scripts.source(name) for name in scripts.SCRIPTS},
                operator=self._operator_facts,
                secret=self._secret,
                states=self.states,
            )
        )
        if self.order is not None and self.order[0] is Verb.ROLLBACK:
            state = rolled_back(state, survey, self.order[1])
        self._known.state = state
        return state

    def _operator_facts(self) -> NodeFacts:
        """Read the operator's own machine, once."""
        if self._known.operator is None:
            session = AgentSession(LOCAL, LocalTransport(), read_only=True, become_root=False)
            session.open()
            try:
                self._known.operator = parse_node_facts(session.call("facts", {"paths": []}))
            finally:
                session.close()
        return self._known.operator

    def _secret(self, reference: SecretRef) -> str:
        """Return a secret's value. Raises SecretUnavailable."""
        if reference.env is not None:
            value = secret_values.from_environment(reference.env, os.environ)
        elif reference.file is not None:
            value = secret_values.from_file(Path(reference.file))
        else:
            value = secret_values.from_command(reference.command or ())
        return secret_values.checked_key(value, str(reference))

    def observe(
        self, session: Session, reading: NodeReading, desired: Sequence[Desired], undeclared: Sequence[Mark]
    ) -> NodeObservation:
        """Return what a node has of the resources that stand on it."""
        return observe_node(
            session, reading, desired, undeclared, lambda item: self.kinds[item.kind].objects(item)
        )

    def together(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Return the changes with gang members restarting together."""
        if self.order is not None and self.order[0] is Verb.RESTART:
            changes = restarted(changes, self.order[1])
        return couple(changes)

    def summaries(self, plan: Plan, survey: Survey) -> tuple[GangSummary, ...]:
        """Return what the plan means for each placement it touches."""
        shapes = self._shapes if plan.purpose is Purpose.APPLY else {}
        return summary.summarise(plan, survey, self.resolved, shapes)

    # -- executing -----------------------------------------------------------------------------------------

    def steps(
        self,
        plan: Plan,
        chosen: Sequence[Change],
        survey: Survey,
    ) -> Sequence[Step]:
        """Return the work that executes the chosen changes."""
        shared_paths: dict[str, dict[str, list[Mark]]] = {}
        for node, reading in survey.readings.items():
            for mark in (*reading.marks.values(), *reading.foreign):
                for path in owned_paths(mark):
                    shared_paths.setdefault(node, {}).setdefault(path, []).append(mark)
        work = Work(
            cluster=self.cluster,
            workstation=self.workstation,
            model_sources=self.resolved.models,
            shared_paths=shared_paths,
            declared=frozenset(self.placements) if plan.purpose is Purpose.APPLY else frozenset(),
            claimed=_claimed(plan),
            unclear=frozenset(node for node, reading in survey.readings.items() if reading.unclear),
        )
        return expand(
            chosen,
            work,
            compiling=self._compiling(chosen, survey),
            bystanders=self._bystanders(chosen, survey),
            records=[
                change
                for change in plan.changes
                if change.kind == "member" and change.desired is not None and change.node in survey.readings
            ],
            held=frozenset(
                change.gang
                for change in plan.pending
                if change.gang is not None and change not in chosen and change.cost is not Cost.NOTHING
            ),
        )

    def _compiling(self, chosen: Sequence[Change], survey: Survey) -> list[CompileStep]:
        found: dict[str, CompileStep] = {}
        for change in chosen:
            spec = change.desired.spec if change.desired is not None and change.kind == "build" else None
            if spec is None or change.action is Action.REMOVE or spec["key"] in found:
                continue
            if self.workstation.built(spec["key"]) is None:
                found[spec["key"]] = self._compile_step(spec, survey)
        return list(found.values())

    def _compile_step(self, spec: Mapping[str, Any], survey: Survey) -> CompileStep:
        node, archive = spec["toolchain"]["node"], self.resolved.archives[spec["build"]]
        local = node == LOCAL
        facts = self._operator_facts() if local else survey.readings[node].facts
        cache = self.workstation.cache / "work" if local else Path(self.resolved.nodes[node].paths.cache)
        order = CompileOrder(
            name=spec["build"],
            key=spec["key"],
            archive=archive,
            archive_digest=self._digests[archive],
            source_root=self.workstation.source(archive).root,
            options=spec["options"],
            targets=spec["binaries"],
            directory=layout.compile_directory(str(cache), spec["key"]),
            compiler_cache=str(self.workstation.cache / "ccache")
            if local
            else layout.compiler_cache(str(cache)),
            jobs=jobs_for(facts),
            generator="Ninja" if "ninja" in facts.tools else "Unix Makefiles",
            description={"identity": spec["identity"], "toolchain": spec["toolchain"]},
        )

        def compile_once(context: StepContext) -> None:
            if not local:
                compile_build(order, context.sessions[node], self.workstation, context, local=False)
                return
            session = AgentSession(LOCAL, LocalTransport(), read_only=False, become_root=False)
            session.open()
            try:
                compile_build(order, session, self.workstation, context, local=True)
            finally:
                session.close()

        def run(context: StepContext) -> None:
            def waiting() -> None:
                context.progress("waiting for another hetctl that compiles it")
                if context.interrupted():
                    raise Interrupted("interrupted while another hetctl compiles it", where=order.name)

            with self.workstation.claimed(order.key, waiting=waiting):
                if self.workstation.built(order.key) is None:
                    compile_once(context)

        return CompileStep(name=f"compile build/{order.name}", node=node, key=order.key, run=run)

    def _bystanders(self, chosen: Sequence[Change], survey: Survey) -> dict[Address, str]:
        """Return for each worker that starts a node that must not be able to reach it, where there is one."""
        found: dict[Address, str] = {}
        for change in chosen:
            if change.kind != "worker" or change.desired is None or change.action is Action.REMOVE:
                continue
            spec = change.desired.spec
            if not runs(spec):
                continue
            guarded = any(address.startswith("firewall/") for address in change.desired.depends_on)
            strangers = [
                node
                for node in survey.readings
                if node in self.resolved.nodes
                and not self.resolved.nodes[node].local
                and node not in (change.node, spec["head"])
            ]
            if guarded and strangers and spec["listen"] != LOOPBACK:
                found[change.address] = strangers[0]
        return found

    def is_model(self, mark: Mark) -> bool:
        """Return True for what `destroy --keep-models` leaves in place."""
        return mark.kind == "model"

    # -- looking -------------------------------------------------------------------------------------------

    def status_part(self, session: Session, reading: NodeReading, desired: Sequence[Desired]) -> Any:
        """Return what one node says about its part of the placements."""
        return inspection.status_part(session, reading, desired)

    def status(
        self, survey: Survey, state: DesiredState, parts: Mapping[str, Any]
    ) -> tuple[PlacementStatus, ...]:
        """Return how the declared placements are."""
        return inspection.placement_status(self.placements, survey, state, parts, str(self.manifest))

    def journal_sources(self, placement: str) -> Sequence[JournalSource]:
        """Return the units of a declared placement, the server first."""
        return inspection.journal_sources(self.resolved, placement)

    def journal(
        self,
        session: Session,
        source: JournalSource,
        *,
        lines: int,
        follow: bool,
        emit: Callable[[JournalLine], None],
    ) -> None:
        """Emit the last entries of a unit's journal, and with `follow` those that come."""
        inspection.journal(session, source, lines=lines, follow=follow, emit=emit)

    def head(self, placement: str) -> str:
        """Return the node on which a declared placement's server stands."""
        return self.resolved.placements[placement].head

    def ask(
        self,
        session: Session,
        reading: NodeReading,
        placement: str,
        question: Question,
        emit: Callable[[str], None],
    ) -> Answer:
        """Put one question to a placement from its server's node; emit the text as it comes."""
        return asking.ask(session, reading.marks.get(f"server/{placement}"), placement, question, emit)
