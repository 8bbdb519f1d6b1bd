"""The dependency graph of a plan or of its steps, ready to be drawn. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hetctl.resources.base import Action, Step
from hetctl.resources.provider import Plan


@dataclass(frozen=True, slots=True)
class Vertex:
    """A resource or a step.

    Arguments:
        name: Unique in the diagram.
        label: What people read.
        node: The machine it is on.
        action: What happens to it; empty for a step.
    """

    name: str
    label: str
    node: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class Diagram:
    """What depends on what.

    Arguments:
        title: Of the whole.
        vertices: In the order of the plan: what others depend on comes first.
        edges: (from, to): `from` depends on `to`. What follows from others is left out.
    """

    title: str
    vertices: tuple[Vertex, ...]
    edges: tuple[tuple[str, str], ...]

    def needs(self) -> Mapping[str, Sequence[str]]:
        """Return for each name what it depends on, in the order of the vertices."""
        position = {vertex.name: index for index, vertex in enumerate(self.vertices)}
        found: dict[str, list[str]] = {vertex.name: [] for vertex in self.vertices}
        for source, target in self.edges:
            found[source].append(target)
        return {name: sorted(others, key=position.__getitem__) for name, others in found.items()}

    def layers(self) -> list[list[str]]:
        """Return the names by how far they are from what needs nothing, which comes first."""
        needs = self.needs()
        depth: dict[str, int] = {}
        for vertex in self.vertices:
            depth[vertex.name] = 1 + max((depth[other] for other in needs[vertex.name]), default=-1)
        found: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
        for name, level in depth.items():
            found[level].append(name)
        return found


def plan_diagram(plan: Plan) -> Diagram:
    """Return the graph of a plan's resources, those that stay as they are included."""
    by_address: dict[str, list[str]] = {}
    vertices = {}
    for change in plan.changes:
        name = f"{change.address} on {change.node}"
        short = change.address.removesuffix(f"@{change.node}")
        vertices[name] = Vertex(name, short, change.node, change.action.value)
        by_address.setdefault(change.address, []).append(name)
    edges = [
        (f"{change.address} on {change.node}", other)
        for change in plan.changes
        for address in change.depends_on
        for other in by_address.get(address, ())
    ]
    removed = {
        f"{change.address} on {change.node}" for change in plan.changes if change.action is Action.REMOVE
    }
    # what goes has no part in what comes: an edge between the two would say nothing
    edges = [(source, target) for source, target in edges if (source in removed) == (target in removed)]
    return _diagram(plan.cluster, list(vertices.values()), edges)


def step_diagram(title: str, steps: Iterable[Step]) -> Diagram:
    """Return the graph of the steps of a run; what only runs after a failure is left out."""
    usual = [step for step in steps if not step.rescues]
    names = {step.name for step in usual}
    vertices = [Vertex(step.name, step.name, step.node) for step in usual]
    edges = [(step.name, other) for step in usual for other in (step.needs | step.after) & names]
    return _diagram(title, vertices, edges)


def _diagram(title: str, vertices: Sequence[Vertex], edges: Collection[tuple[str, str]]) -> Diagram:
    import networkx as nx  # noqa: PLC0415 - takes a while to load, and only diagrams need it

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(vertex.name for vertex in vertices)
    graph.add_edges_from(edges)
    order = {name: index for index, name in enumerate(reversed(list(nx.topological_sort(graph))))}
    reduced = nx.transitive_reduction(graph).edges
    return Diagram(
        title=title,
        vertices=tuple(sorted(vertices, key=lambda vertex: order[vertex.name])),
        edges=tuple(sorted(reduced, key=lambda edge: (order[edge[0]], order[edge[1]]))),
    )
