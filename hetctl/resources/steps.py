"""From the changes of a plan to the work that executes them, and the order of that work.

Everything that can be prepared beside the running processes is prepared first. Only then does a placement
stop, and what it no longer needs goes last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hetctl.resources import gang, work
from hetctl.resources.activity import runs
from hetctl.resources.base import Action, Change, Cost, Step, StepContext
from hetctl.resources.work import Work, wanted

MAKE: Mapping[str, tuple[str, Callable[[Work, StepContext, Change], None]]] = {
    "member": ("record", work.record_member),
    "build": ("install", work.install_build),
    "model": ("put", work.put_model),
    "firewall": ("raise", work.raise_firewall),
}
"""For kinds without a process: the verb of the step and what it does."""

REMOVE: Mapping[str, Callable[[Work, StepContext, Change], None]] = {
    "member": work.forget_cluster,
    "build": work.remove_build,
    "model": work.remove_model,
    "firewall": work.lower_firewall,
    "worker": gang.remove_member,
    "server": gang.remove_member,
}

PROCESSES = frozenset({"worker", "server"})


@dataclass(frozen=True, slots=True)
class CompileStep:
    """A build that has to be compiled before it can be installed anywhere.

    Arguments:
        name: Of the step.
        node: Node that compiles.
        key: Key of the builds that wait for it.
        run: Does it.
    """

    name: str
    node: str
    key: str
    run: Callable[[StepContext], None]


def name_of(verb: str, change: Change) -> str:
    """Return a step's name; the node is in it because one address may stand on two nodes while it moves."""
    suffix = "" if change.address.endswith(f"@{change.node}") else f" on {change.node}"
    return f"{verb} {change.address}{suffix}"


def expand(
    chosen: Sequence[Change],
    shared: Work,
    *,
    compiling: Sequence[CompileStep],
    bystanders: Mapping[str, str],
    records: Sequence[Change] = (),
) -> list[Step]:
    """Return the steps that execute the chosen changes.

    Arguments:
        chosen: Changes to execute.
        shared: What all steps use.
        compiling: Builds to compile first.
        bystanders: For the address of a worker a node that must not be able to reach it.
        records: The changes of the declared nodes' member records, chosen or not.
    """
    made = [change for change in chosen if change.action is not Action.REMOVE]
    removed = [change for change in chosen if change.action is Action.REMOVE]
    steps = [
        Step(name=item.name, address=item.name.partition(" ")[2], node=item.node, run=item.run)
        for item in compiling
    ]
    recorded = {change.node: name_of("record", change) for change in made if change.kind == "member"}
    steps += [_make(shared, change, recorded, compiling) for change in made if change.kind in MAKE]
    gangs = dict.fromkeys(
        change.gang for change in [*made, *removed] if change.kind in PROCESSES and change.gang is not None
    )
    prepared = {step.address: step.name for step in steps}
    for members in _switched_together([change for change in chosen if change.kind in PROCESSES]):
        steps += _switch(shared, members, prepared, recorded, bystanders)
    steps += _collections(shared, made, steps)
    steps += _removals(shared, removed, {step.name for step in steps}, gangs=list(gangs), chosen=chosen)
    return steps + _farewells(shared, removed, records, recorded)


def _farewells(
    shared: Work, removed: Sequence[Change], records: Sequence[Change], recorded: Mapping[str, str]
) -> list[Step]:
    """Return the steps that take cleaned nodes off the other nodes' records, one after the other."""
    steps = []
    for record in records:
        earlier = recorded.get(record.node, "")
        done: set[str] = set()
        for change in removed:
            if change.kind != "member" or change.node == record.node:
                continue
            done.add(change.node)
            step = Step(
                name=f"forget {change.node} on {record.node}",
                address=record.address,
                node=record.node,
                run=_bind_farewell(shared, record, frozenset(done)),
                needs=frozenset({name_of("remove", change), *([earlier] if earlier else [])}),
            )
            steps.append(step)
            earlier = step.name
    return steps


def _bind_farewell(shared: Work, record: Change, gone: frozenset[str]) -> Callable[[StepContext], None]:
    def run(context: StepContext) -> None:
        work.forget_nodes(shared, context, record, gone)

    return run


def _make(
    shared: Work, change: Change, recorded: Mapping[str, str], compiling: Sequence[CompileStep]
) -> Step:
    verb, function = MAKE[change.kind]
    needs = set()
    if change.kind != "member" and change.node in recorded:
        needs.add(recorded[change.node])
    if change.kind == "build" and change.desired is not None:
        needs |= {item.name for item in compiling if item.key == change.desired.spec["key"]}
    return Step(
        name=name_of(verb, change),
        address=change.address,
        node=change.node,
        run=_bind(function, shared, change),
        needs=frozenset(needs),
    )


def _bind(
    function: Callable[[Work, StepContext, Change], None], shared: Work, change: Change
) -> Callable[[StepContext], None]:
    def run(context: StepContext) -> None:
        function(shared, context, change)

    return run


def _switched_together(processes: Sequence[Change]) -> list[list[Change]]:
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


def _switch(
    shared: Work,
    members: Sequence[Change],
    prepared: Mapping[str, str],
    recorded: Mapping[str, str],
    bystanders: Mapping[str, str],
) -> list[Step]:
    """Return the steps of one switch: stop heads, then workers; start and prove workers, then heads.

    What is declared stopped is written without being started, after those that take its place run.
    """
    kept = [change for change in members if change.action is not Action.REMOVE]
    starting = [change for change in kept if runs(wanted(change).spec)]
    resting = [change for change in kept if change not in starting]
    before = frozenset(
        [
            *(prepared[address] for change in kept for address in change.depends_on if address in prepared),
            *(recorded[change.node] for change in kept if change.node in recorded),
        ]
    )
    if all(change.cost is Cost.NOTHING for change in members):
        return [
            *(_step(shared, "prove", change, gang.reprove_server, before) for change in starting),
            *(_step(shared, "rest", change, gang.rest_member, before) for change in resting),
        ]
    standing = [change for change in members if change.mark is not None and runs(change.mark.spec)]
    heads = [change for change in standing if change.kind == "server"]
    workers = [change for change in standing if change.kind == "worker"]
    steps = [_step(shared, "stop", change, gang.stop_member, before) for change in heads]
    stopped_heads = frozenset(step.name for step in steps)
    steps += [_step(shared, "stop", change, gang.stop_member, before | stopped_heads) for change in workers]
    stopped = frozenset(step.name for step in steps) | before
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
    steps += _rescue(shared, members, steps)
    return [replace(step, switch=str(members[0].gang)) for step in steps]


def _rescue(shared: Work, members: Sequence[Change], switch: Sequence[Step]) -> list[Step]:
    """Return the step that takes a gang back when its switch failed; none when it only goes away."""
    heads = [change for change in members if change.kind == "server" and change.action is not Action.REMOVE]
    if not heads:
        return []
    head = max(heads, key=lambda change: runs(wanted(change).spec))

    def run(context: StepContext) -> None:
        gang.go_back(shared, context, members)

    return [
        Step(
            name=f"go back {head.address}",
            address=head.address,
            node=head.node,
            run=run,
            interruptible=False,
            also=frozenset(change.node for change in members),
            rescues=frozenset(step.name for step in switch),
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
        run=_bind(function, shared, change),
        needs=needs,
        interruptible=False,
    )


def _collections(shared: Work, made: Sequence[Change], earlier: Sequence[Step]) -> list[Step]:
    """Return the steps that remove superseded generations, after every placement runs again."""
    running = frozenset(step.name for step in earlier if step.name.startswith(("start ", "install ", "put ")))
    return [
        Step(
            name=name_of("collect", change),
            address=change.address,
            node=change.node,
            run=_bind(work.collect, shared, change),
            needs=running,
        )
        for change in made
        if work.superseded_paths(change)
    ]


def _removals(
    shared: Work,
    removed: Sequence[Change],
    earlier: set[str],
    *,
    gangs: Sequence[str],
    chosen: Sequence[Change],
) -> list[Step]:
    """Return the removals: what others stand on goes after them, and after the placements run again."""
    names = {(change.address, change.node): name_of("remove", change) for change in removed}
    steps = []
    for change in removed:
        users = [
            names[other.address, other.node]
            for other in removed
            if other.mark is not None
            and change.address in other.mark.depends_on
            and (other.address, other.node) != (change.address, change.node)
        ]
        same_gang = [
            name
            for other in chosen
            if other.kind in PROCESSES
            and other.gang in gangs
            and (change.kind not in PROCESSES or other.gang == change.gang)
            for name in (name_of("stop", other), name_of("start", other))
            if name in earlier
        ]
        last = [
            name
            for key, name in names.items()
            if change.kind == "member"
            and key[1] == change.node
            and name != names[change.address, change.node]
        ]
        steps.append(
            Step(
                name=names[change.address, change.node],
                address=change.address,
                node=change.node,
                run=_bind(REMOVE[change.kind], shared, change),
                needs=frozenset([*users, *same_gang, *last]),
                interruptible=change.kind not in PROCESSES,
            )
        )
    return steps
