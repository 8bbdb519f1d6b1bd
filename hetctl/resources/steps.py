"""From the changes of a plan to the work that executes them, and the order of that work.

Everything that can be prepared beside the running processes is prepared first. Only then does a placement
stop, and what it no longer needs goes last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hetctl.resources import gang, packet_filter, predecessor, takeover, work
from hetctl.resources.activity import PROCESSES
from hetctl.resources.base import Action, Change, Cost, Step, StepContext
from hetctl.resources.switch import Switch, bind, name_of, switch_steps, switched_together
from hetctl.resources.work import Work, wanted

MAKE: Mapping[str, tuple[str, Callable[[Work, StepContext, Change], None]]] = {
    "member": ("record", work.record_member),
    "build": ("install", work.install_build),
    "model": ("put", work.put_model),
    "firewall": ("raise", packet_filter.raise_filter),
}
"""For kinds without a process: the verb of the step and what it does."""

REMOVE: Mapping[str, Callable[[Work, StepContext, Change], None]] = {
    "member": work.forget_cluster,
    "build": work.remove_build,
    "model": work.remove_model,
    "firewall": packet_filter.lower_filter,
    "predecessor": predecessor.revive,
    "worker": gang.remove_member,
    "server": gang.remove_member,
}


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


def expand(
    chosen: Sequence[Change],
    shared: Work,
    *,
    compiling: Sequence[CompileStep],
    bystanders: Mapping[str, str],
    records: Sequence[Change] = (),
    held: frozenset[str] = frozenset(),
) -> list[Step]:
    """Return the steps that execute the chosen changes.

    Arguments:
        chosen: Changes to execute.
        shared: What all steps use.
        compiling: Builds to compile first.
        bystanders: For the address of a worker a node that must not be able to reach it.
        records: The changes of the declared nodes' member records, chosen or not.
        held: Placements that are to switch and cannot yet.
    """
    renamed = [change for change in chosen if change.action is Action.RENAME]
    made = [change for change in chosen if change.action not in (Action.REMOVE, Action.RENAME)]
    removed = [change for change in chosen if change.action is Action.REMOVE]
    recorded = {change.node: name_of("record", change) for change in made if change.kind == "member"}
    steps = [
        Step(
            name=item.name,
            address=item.name.partition(" ")[2],
            node=item.node,
            run=item.run,
            needs=frozenset({recorded[item.node]} if item.node in recorded else ()),
        )
        for item in compiling
    ]
    switching = frozenset(
        change.gang
        for change in chosen
        if change.gang is not None and change.kind in PROCESSES and change.cost is not Cost.NOTHING
    )
    filters = [change for change in made if _moves_with(change, switching | held)]
    steps += [_make(shared, change, recorded, compiling, filters) for change in made if change.kind in MAKE]
    gangs = dict.fromkeys(
        change.gang for change in [*made, *removed] if change.kind in PROCESSES and change.gang is not None
    )
    prepared = {step.address: step.name for step in steps}
    steps += [
        Step(
            name=name_of("rename", change),
            address=change.address,
            node=change.node,
            run=bind(takeover.rename, shared, change),
            needs=frozenset({recorded[change.node]}) if change.node in recorded else frozenset(),
        )
        for change in renamed
    ]
    moving_processes = [change for change in [*made, *removed] if change.kind in PROCESSES]
    retiring = [change for change in made if change.kind == "predecessor"]
    for members in switched_together(moving_processes):
        names = {change.gang for change in members}
        moving = [change for change in filters if wanted(change).spec["placement"] in names]
        leaving = [change for change in retiring if change.gang in names]
        steps += switch_steps(shared, Switch(members, moving, leaving, prepared, recorded, bystanders))
    steps += [
        Step(
            name=name_of("retire", change),
            address=change.address,
            node=change.node,
            run=bind(predecessor.retire, shared, change),
            needs=frozenset({recorded[change.node]}) if change.node in recorded else frozenset(),
        )
        for change in retiring
        if change.gang not in {process.gang for process in moving_processes}
    ]
    steps += _settlements(shared, made, steps)
    steps += _collections(shared, made, steps)
    steps += _removals(shared, removed, {step.name for step in steps}, gangs=list(gangs), chosen=chosen)
    steps += _farewells(shared, removed, records, recorded)
    return steps + _last_settlements(shared, made, steps)


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


def _moves_with(change: Change, placements: frozenset[str]) -> bool:
    """Return whether a change is of a packet filter that has to switch together with its placement."""
    if change.kind != "firewall" or wanted(change).spec["placement"] not in placements:
        return False
    return packet_filter.moves(change)


def _make(
    shared: Work,
    change: Change,
    recorded: Mapping[str, str],
    compiling: Sequence[CompileStep],
    filters: Sequence[Change],
) -> Step:
    verb, function = ("guard", packet_filter.guard) if change in filters else MAKE[change.kind]
    needs = set()
    if change.kind != "member" and change.node in recorded:
        needs.add(recorded[change.node])
    if change.kind == "build" and change.desired is not None:
        needs |= {item.name for item in compiling if item.key == change.desired.spec["key"]}
    return Step(
        name=name_of(verb, change),
        address=change.address,
        node=change.node,
        run=bind(function, shared, change),
        needs=frozenset(needs),
    )


def _settlements(shared: Work, made: Sequence[Change], earlier: Sequence[Step]) -> list[Step]:
    """Return the steps that clear what stood under an earlier name, after every placement runs again."""
    running = frozenset(step.name for step in earlier if not step.rescues)
    return [
        Step(
            name=name_of("settle", change),
            address=change.address,
            node=change.node,
            run=bind(takeover.settle, shared, change),
            needs=running,
        )
        for change in made
        if change.kind != "member" and change.mark is not None and change.mark.stored is not None
    ]


def _last_settlements(shared: Work, made: Sequence[Change], earlier: Sequence[Step]) -> list[Step]:
    """Return the steps that forget what nodes or their cluster were called, after everything else there."""
    return [
        Step(
            name=name_of("settle", change),
            address=change.address,
            node=change.node,
            run=bind(takeover.settle, shared, change),
            needs=frozenset(step.name for step in earlier if step.node == change.node and not step.rescues),
        )
        for change in made
        if change.kind == "member" and change.mark is not None and change.mark.stored is not None
    ]


def _collections(shared: Work, made: Sequence[Change], earlier: Sequence[Step]) -> list[Step]:
    """Return the steps that remove superseded generations, after every placement runs again."""
    running = frozenset(step.name for step in earlier if step.name.startswith(("start ", "install ", "put ")))
    return [
        Step(
            name=name_of("collect", change),
            address=change.address,
            node=change.node,
            run=bind(work.collect, shared, change),
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
                run=bind(REMOVE[change.kind], shared, change),
                needs=frozenset([*users, *same_gang, *last]),
                interruptible=change.kind not in PROCESSES,
            )
        )
    return steps
