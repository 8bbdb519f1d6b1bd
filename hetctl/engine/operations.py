"""The operations behind the commands that plan and change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from hetctl.engine.examine import Situation, examine
from hetctl.engine.inquiry import check_node_names
from hetctl.engine.interrupt import Interrupts, caught
from hetctl.engine.lock import holder, locked
from hetctl.engine.outcome import Reporter, Result, RunReport
from hetctl.engine.parallel import for_each
from hetctl.engine.run import run
from hetctl.engine.selection import limited
from hetctl.engine.sessions import Sessions, opened
from hetctl.errors import ExitCode, LockHeld, PlanStale
from hetctl.resources.base import Action, Mark
from hetctl.resources.provider import (
    Plan,
    Provider,
    Purpose,
    Target,
)
from hetctl.rules.finding import Severity


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """What the user allows.

    Arguments:
        prune: Removals may be executed.
        fail_fast: Begin nothing new after the first failure.
        lock_wait: Seconds to wait for somebody else's lock.
        allow_unreachable: Nodes whose silence is no reason for an exit code.
        expected: Fingerprint of a saved plan: anything else is stale.
        targets: Placements and resources the plan is limited to; empty for all of the cluster.
    """

    prune: bool = False
    fail_fast: bool = False
    lock_wait: float = 0.0
    allow_unreachable: frozenset[str] = frozenset()
    expected: str | None = None
    targets: frozenset[str] = frozenset()


class Consent(Protocol):
    """Where a plan is shown and agreed to."""

    def agreed(self, plan: Plan, *, changed: bool) -> bool:
        """Show `plan` and return whether it may be executed.

        Arguments:
            plan: What would be done.
            changed: It differs from the one agreed to before, because the nodes changed in between.
        """

    def waiting(self, held: LockHeld) -> None:
        """Say that somebody else holds the lock and that it is tried again."""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What came of an apply or a destroy.

    Arguments:
        situation: What the executed plan rests on.
        report: What became of its steps; None when nothing was run.
        declined: The user said no.
        codes: Every exit code that holds.
    """

    situation: Situation
    report: RunReport | None
    declined: bool
    codes: tuple[ExitCode, ...]


def diff(provider: Provider, targets: Collection[str] = ()) -> Situation:
    """Read the nodes, one exec each, and return the plan; takes no lock and writes nothing.

    Arguments:
        provider: The cluster.
        targets: As in `ApplyOptions`.

    Raises:
        UsageError: A target names nothing in the plan.
    """
    with opened(provider.targets(), write=False) as sessions:
        return limited(examine(provider, sessions), targets)


def apply(
    provider: Provider,
    consent: Consent,
    options: ApplyOptions,
    *,
    reporter: Reporter | None = None,
    interrupts: Interrupts | None = None,
) -> ApplyResult:
    """Make the nodes what the manifest says.

    Reads first, one exec a node and no lock; a cluster that is as declared is left at that. Otherwise the
    plan is agreed to, every node locked, everything read again, and the plan that follows executed.

    Raises:
        LockHeld: Somebody else is applying.
        PlanStale: It is not the plan `options.expected` names.
    """
    narrow = partial(limited, targets=options.targets)
    with opened(provider.targets(), write=False) as sessions:
        first = narrow(examine(provider, sessions))
    check_node_names(options.allow_unreachable, (*first.plan.nodes_read, *first.plan.nodes_unknown))
    check_expected(first.plan, options.expected)
    if blocked(first.plan) or not first.plan.executable(prune=options.prune):
        return ApplyResult(first, None, declined=False, codes=plan_codes(first.plan, options))
    if not consent.agreed(first.plan, changed=False):
        return ApplyResult(first, None, declined=True, codes=(ExitCode.REFUSED,))
    return _execute(
        provider, consent, options, first, reporter=reporter, interrupts=interrupts, narrow=narrow
    )


def destroy(
    provider: Provider,
    consent: Consent,
    options: ApplyOptions,
    *,
    keep_models: bool = False,
    reporter: Reporter | None = None,
    interrupts: Interrupts | None = None,
) -> ApplyResult:
    """Remove everything of ours from every node, declared or recorded; consent is the caller's to ask for.

    Raises:
        LockHeld: Somebody else is applying.
    """
    options = replace(options, prune=True)
    keep: Callable[[Mark], bool] = provider.is_model if keep_models else lambda _: False
    narrow = partial(without, keep=keep)
    with opened(provider.targets(), write=False) as sessions:
        first = narrow(examine(provider, sessions, Purpose.DESTROY))
    check_node_names(options.allow_unreachable, (*first.plan.nodes_read, *first.plan.nodes_unknown))
    if blocked(first.plan) or not first.plan.executable(prune=True):
        return ApplyResult(first, None, declined=False, codes=plan_codes(first.plan, options))
    if not consent.agreed(first.plan, changed=False):
        return ApplyResult(first, None, declined=True, codes=(ExitCode.REFUSED,))
    return _execute(
        provider, consent, options, first, reporter=reporter, interrupts=interrupts, narrow=narrow
    )


def _execute(
    provider: Provider,
    consent: Consent,
    options: ApplyOptions,
    first: Situation,
    *,
    reporter: Reporter | None,
    interrupts: Interrupts | None,
    narrow: Callable[[Situation], Situation],
) -> ApplyResult:
    purpose = first.plan.purpose
    targets = _reached(provider, first)
    who = holder(purpose.value, provider.cluster, provider.manifest)
    with locked(targets, who, wait=options.lock_wait, on_wait=consent.waiting) as sessions:
        for node, error in first.survey.unknown.items():
            sessions.unknown.setdefault(node, error)
        if purpose is not Purpose.DESTROY:
            _prepare(provider, sessions, first)
        second = narrow(examine(provider, sessions, purpose))
        _check_all_locked(second, targets)
        if second.plan.fingerprint != first.plan.fingerprint:
            check_expected(second.plan, options.expected)
            if blocked(second.plan) or not second.plan.executable(prune=options.prune):
                return ApplyResult(second, None, declined=False, codes=plan_codes(second.plan, options))
            if not consent.agreed(second.plan, changed=True):
                return ApplyResult(second, None, declined=True, codes=(ExitCode.REFUSED,))
        steps = provider.steps(second.plan, second.plan.executable(prune=options.prune), second.survey)
        with caught(interrupts or Interrupts()) as noticed:
            report = run(
                steps,
                sessions,
                reporter=reporter,
                interrupts=noticed,
                fail_fast=options.fail_fast,
            )
    codes = (*plan_codes(second.plan, options), *report.exit_codes())
    if report.with_result(Result.DONE):
        codes = tuple(ExitCode.APPLIED_IN_PART if code is ExitCode.REFUSED else code for code in codes)
    return ApplyResult(second, report, declined=False, codes=codes)


def _reached(provider: Provider, first: Situation) -> list[Target]:
    recorded = provider.recorded_targets(first.survey.readings)
    by_node = {target.node: target for target in (*recorded, *provider.targets())}
    return [target for node, target in by_node.items() if node in first.survey.readings]


def _prepare(provider: Provider, sessions: Sessions, first: Situation) -> None:
    """Prepare the nodes that hold something of ours; the others are prepared when they are recorded."""
    ours = {node: session for node, session in sessions.open.items() if first.survey.readings[node].marks}
    outcomes = for_each(ours, lambda _, session: provider.prepare(session))
    sessions.give_up(outcomes.errors)


def _check_all_locked(second: Situation, targets: Sequence[Target]) -> None:
    unlocked = set(second.survey.readings) - {target.node for target in targets}
    if unlocked:
        raise PlanStale(
            "a member record names a node that was not there a moment ago",
            where=", ".join(sorted(unlocked)),
            why="somebody else applied in between",
            fix="run the command again",
        )


def check_expected(plan: Plan, expected: str | None) -> None:
    """Raise PlanStale unless `expected` is None or the plan's fingerprint."""
    if expected is not None and plan.fingerprint != expected:
        raise PlanStale(
            "what the saved plan rests on has changed",
            where=plan.cluster,
            why="the manifest, a file it names, or a node is not what it was when the plan was saved",
            fix="make a new plan: hetctl diff --save",
        )


def without(situation: Situation, keep: Callable[[Mark], bool]) -> Situation:
    """Return the situation without the removals of marks that `keep` holds on to, and of what those need."""
    kept = [change.mark for change in situation.plan.changes if change.mark is not None and keep(change.mark)]
    needed = {(address, mark.node) for mark in kept for address in (mark.address, *mark.depends_on)}
    changes = tuple(
        change for change in situation.plan.changes if (change.address, change.node) not in needed
    )
    return replace(situation, plan=replace(situation.plan, changes=changes))


def blocked(plan: Plan) -> bool:
    """Return True when a finding forbids to execute the plan."""
    return any(finding.severity is Severity.ERROR for finding in plan.findings)


def plan_codes(plan: Plan, options: ApplyOptions) -> tuple[ExitCode, ...]:
    """Return the exit codes that hold when everything executable in the plan has been done.

    REFUSED stands for what was left out: for want of consent, because something is in the way, or because a
    node that answered could not say how a resource is.
    """
    codes = [ExitCode.DONE]
    if set(plan.nodes_unknown) - options.allow_unreachable:
        codes.append(ExitCode.UNREACHABLE)
    if plan.gates:
        codes.append(ExitCode.GATE)
    left_out = any(
        change.action is Action.BLOCKED
        or (change.action is Action.UNKNOWN and change.node in plan.nodes_read)
        for change in plan.changes
    )
    if blocked(plan) or left_out or (plan.removals and not options.prune):
        codes.append(ExitCode.REFUSED)
    return tuple(codes)


def diff_codes(plan: Plan, allow_unreachable: Iterable[str] = ()) -> tuple[ExitCode, ...]:
    """Return the exit codes that hold for a plan that is only shown."""
    options = ApplyOptions(prune=True, allow_unreachable=frozenset(allow_unreachable))
    codes = plan_codes(plan, options)
    return (*codes, ExitCode.CHANGES_PENDING) if plan.pending else codes
