"""The steps of a switch: a placement, or one and those it takes the place of, stops and starts together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hetctl.resources import gang, packet_filter, predecessor
from hetctl.resources.activity import runs
from hetctl.resources.base import Action, Change, Cost, Step, StepContext
from hetctl.resources.work import Work, wanted


@dataclass(frozen=True, slots=True)
class Switch:
    """What changes together.

    Arguments:
        members: The changes of workers and servers.
        filters: The changes of packet filters that guard other ports afterwards.
        predecessors: The changes of what they take the place of.
        prepared: For addresses of what processes stand on the step that makes it.
        recorded: For nodes the step that writes their record.
        bystanders: For the address of a worker a node that must not be able to reach it.
    """

    members: Sequence[Change]
    filters: Sequence[Change]
    predecessors: Sequence[Change]
    prepared: Mapping[str, str]
    recorded: Mapping[str, str]
    bystanders: Mapping[str, str]


def name_of(verb: str, change: Change) -> str:
    """Return a step's name; the node is in it because one address may stand on two nodes while it moves."""
    told = f"{change.address}.".partition("@")[2].startswith(f"{change.node}.")
    suffix = "" if told else f" on {change.node}"
    return f"{verb} {change.address}{suffix}"


def bind(
    function: Callable[[Work, StepContext, Change], None], shared: Work, change: Change
) -> Callable[[StepContext], None]:
    """Return what a step runs: a function of this package for one change."""

    def run(context: StepContext) -> None:
        function(shared, context, change)

    return run


def switched_together(processes: Sequence[Change]) -> list[list[Change]]:
    """Return the changes of workers and servers by switch: a placement, and those it takes the place of."""
    gangs = {change.address: str(change.gang) for change in processes}
    switch_of = {gang: gang for gang in gangs.values()}
    for change in processes:
        for address in change.desired.depends_on if change.desired is not None else ():
            if address in gangs:
                one, other = switch_of[gangs[address]], switch_of[str(change.gang)]
                switch_of = {gang: one if name == other else name for gang, name in switch_of.items()}
    return [
        [change for change in processes if switch_of[str(change.gang)] == name]
        for name in dict.fromkeys(switch_of.values())
    ]


def switch_steps(shared: Work, switch: Switch) -> list[Step]:
    """Return the steps of one switch: stop heads, then workers; start and prove workers, then heads.

    What is declared stopped is written without being started, after those that take its place run.
    """
    members, filters, bystanders = switch.members, switch.filters, switch.bystanders
    kept = [change for change in members if change.action is not Action.REMOVE]
    starting = [change for change in kept if runs(wanted(change).spec)]
    resting = [change for change in kept if change not in starting]
    before = frozenset(
        [
            *(
                switch.prepared[address]
                for change in kept
                for address in change.depends_on
                if address in switch.prepared
            ),
            *(switch.recorded[change.node] for change in kept if change.node in switch.recorded),
        ]
    )
    if all(change.cost is Cost.NOTHING for change in members):
        return [
            *(_step(shared, "prove", change, gang.reprove_server, before) for change in starting),
            *(_step(shared, "rest", change, gang.rest_member, before) for change in resting),
        ]
    staging = _staging(shared, kept, before)
    before |= frozenset(step.name for step in staging)
    standing = [change for change in members if change.mark is not None and runs(change.mark.spec)]
    heads = [change for change in standing if change.kind == "server"]
    workers = [change for change in standing if change.kind == "worker"]
    steps = [_step(shared, "stop", change, gang.stop_member, before) for change in heads]
    stopped_heads = frozenset(step.name for step in steps)
    steps += [_step(shared, "stop", change, gang.stop_member, before | stopped_heads) for change in workers]
    stopped = frozenset(step.name for step in steps) | before
    steps += [
        _step(shared, "turn", change, packet_filter.turn, stopped)
        for change in filters
        if packet_filter.turns(change)
    ]
    steps += [_step(shared, "retire", change, predecessor.retire, before) for change in switch.predecessors]
    stopped |= frozenset(step.name for step in steps)
    up: set[str] = set()
    for change in starting:
        if change.kind == "worker":
            start = _step(shared, "start", change, gang.start_worker, stopped)
            steps.append(start)
            up.add(start.name)
            if bystander := bystanders.get(change.address):
                proof = Step(
                    name=f"try {change.address} from {bystander}",
                    address=change.address,
                    node=bystander,
                    run=_bind_exposure(change, bystander),
                    needs=frozenset({start.name}),
                    interruptible=False,
                )
                steps.append(proof)
                up.add(proof.name)
    steps += [
        _step(shared, "start", change, gang.start_server, stopped | up)
        for change in starting
        if change.kind == "server"
    ]
    started = frozenset(step.name for step in steps) | before
    steps += [_step(shared, "rest", change, gang.rest_member, started) for change in resting]
    steps += [_step(shared, "raise", change, packet_filter.raise_filter, started) for change in filters]
    steps += _rescue(shared, switch, steps)
    return [*staging, *(replace(step, switch=str(members[0].gang)) for step in steps)]


def _staging(shared: Work, kept: Sequence[Change], before: frozenset[str]) -> list[Step]:
    """Return the last steps before anything stops, one for each node."""
    steps = []
    for node in dict.fromkeys(change.node for change in kept):
        here = [change for change in kept if change.node == node]
        steps.append(
            Step(
                name=f"stage {here[0].gang} on {node}",
                address=here[0].address,
                node=node,
                run=_bind_staging(shared, here),
                needs=before,
            )
        )
    return steps


def _bind_staging(shared: Work, changes: Sequence[Change]) -> Callable[[StepContext], None]:
    def run(context: StepContext) -> None:
        gang.stage(shared, context, changes)

    return run


def _rescue(shared: Work, switch: Switch, steps: Sequence[Step]) -> list[Step]:
    """Return the step that takes a gang back when its switch failed; none when it only goes away."""
    heads = [
        change for change in switch.members if change.kind == "server" and change.action is not Action.REMOVE
    ]
    if not heads:
        return []
    head = max(heads, key=lambda change: runs(wanted(change).spec))

    def run(context: StepContext) -> None:
        gang.go_back(shared, context, switch.members, switch.filters)
        for change in switch.predecessors:
            predecessor.give_back(shared, context, change)

    return [
        Step(
            name=f"go back {head.address}",
            address=head.address,
            node=head.node,
            run=run,
            interruptible=False,
            also=frozenset(
                change.node for change in [*switch.members, *switch.filters, *switch.predecessors]
            ),
            rescues=frozenset(step.name for step in steps),
        )
    ]


def _bind_exposure(change: Change, bystander: str) -> Callable[[StepContext], None]:
    def run(context: StepContext) -> None:
        gang.prove_exposure(context, change, bystander)

    return run


def _step(
    shared: Work,
    verb: str,
    change: Change,
    function: Callable[[Work, StepContext, Change], None],
    needs: frozenset[str],
) -> Step:
    return Step(
        name=name_of(verb, change),
        address=change.address,
        node=change.node,
        run=bind(function, shared, change),
        needs=needs,
        interruptible=False,
    )
