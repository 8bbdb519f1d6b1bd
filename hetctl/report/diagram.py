"""A dependency graph as text and for the programs that draw: Mermaid and Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hetctl.engine.diagram import Diagram, Vertex
from hetctl.report.terminal import Terminal

FILLS: Mapping[str, str] = {
    "create": "#d4f4d4",
    "update": "#fff0c0",
    "rename": "#fff0c0",
    "restart": "#fff8e0",
    "remove": "#f8d0d0",
    "unknown": "#ecd4f4",
    "forget": "#ecd4f4",
    "blocked": "#f0c8e8",
}
"""Colour of what happens; what stays as it is has none."""

UNTOUCHED = "#f4f4f4"


def tree_text(diagram: Diagram, terminal: Terminal) -> str:
    """Return the graph as trees: below each thing what it depends on, told once."""
    needs, vertices = diagram.needs(), {vertex.name: vertex for vertex in diagram.vertices}
    wanted = {name for others in needs.values() for name in others}
    told: set[str] = set()

    def lines(name: str, lead: str, below: str) -> Iterator[str]:
        again = name in told and needs[name]
        told.add(name)
        yield f"{lead}{_told(vertices[name], terminal)}{terminal.dim(' (see above)') if again else ''}\n"
        if again:
            return
        for index, other in enumerate(needs[name]):
            last = index == len(needs[name]) - 1
            yield from lines(other, below + ("`- " if last else "|- "), below + ("   " if last else "|  "))

    tops = [vertex.name for vertex in reversed(diagram.vertices) if vertex.name not in wanted]
    return "".join(line for name in tops for line in lines(name, "", ""))


def _told(vertex: Vertex, terminal: Terminal) -> str:
    action = f"  {_paint(vertex.action, terminal)}" if vertex.action not in ("", "none") else ""
    return f"{vertex.label} on {vertex.node}{action}"


def _paint(action: str, terminal: Terminal) -> str:
    match action:
        case "create":
            return terminal.green(action)
        case "remove":
            return terminal.red(action)
        case "unknown" | "forget" | "blocked":
            return terminal.magenta(action)
        case _:
            return terminal.yellow(action)


def mermaid_text(diagram: Diagram) -> str:
    """Return the graph for Mermaid, each node a box around what is on it."""
    number = {vertex.name: f"v{index}" for index, vertex in enumerate(diagram.vertices)}
    out = ["flowchart BT"]
    for index, (node, inside) in enumerate(_by_node(diagram).items()):
        out.append(f'  subgraph n{index}["{_mermaid(node)}"]')
        out += [f'    {number[vertex.name]}["{_mermaid(_caption(vertex))}"]' for vertex in inside]
        out.append("  end")
    out += [f"  {number[source]} --> {number[target]}" for source, target in diagram.edges]
    for vertex in diagram.vertices:
        if vertex.action in FILLS:
            out.append(f"  style {number[vertex.name]} fill:{FILLS[vertex.action]}")
    return "\n".join(out) + "\n"


def _mermaid(text: str) -> str:
    """Return text for a quoted label: Mermaid reads entities there, `#` begins one."""
    safe = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "\n": "<br>"}
    return "".join(safe.get(char, char) for char in text)


def dot_text(diagram: Diagram) -> str:
    """Return the graph for Graphviz."""
    out = [
        f"digraph {_dot(diagram.title)} {{",
        "  rankdir=BT;",
        '  node [shape=box, style="rounded,filled", fontname="sans-serif"];',
    ]
    for index, (node, inside) in enumerate(_by_node(diagram).items()):
        out += [f"  subgraph cluster_{index} {{", f"    label={_dot(node)};"]
        for vertex in inside:
            colour = FILLS.get(vertex.action, UNTOUCHED)
            out.append(f"    {_dot(vertex.name)} [label={_dot(_caption(vertex))}, fillcolor={_dot(colour)}];")
        out.append("  }")
    out += [f"  {_dot(source)} -> {_dot(target)};" for source, target in diagram.edges]
    return "\n".join([*out, "}"]) + "\n"


def _dot(text: str) -> str:
    """Return text as a quoted string of DOT."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _caption(vertex: Vertex) -> str:
    return vertex.label if vertex.action in ("", "none") else f"{vertex.label}\n{vertex.action}"


def _by_node(diagram: Diagram) -> dict[str, list[Vertex]]:
    found: dict[str, list[Vertex]] = {}
    for vertex in diagram.vertices:
        found.setdefault(vertex.node, []).append(vertex)
    return found
