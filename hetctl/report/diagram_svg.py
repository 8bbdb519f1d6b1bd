"""A dependency graph as a picture, drawn without external programs: what needs nothing is at the bottom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from hetctl.engine.diagram import Diagram, Vertex
from hetctl.report.diagram import FILLS, UNTOUCHED

LETTER = 7
"""Width of a letter in pixels: more than any of the usual fonts needs at 12 px."""

HEIGHT, GAP, LAYER, MARGIN = 40, 24, 96, 24
"""Pixels: of a box, between boxes, from layer to layer, around the picture."""

TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0 8 4 0 8z" fill="#666"/></marker></defs>'
)

SWEEPS = 8
"""How often the order within layers follows that of their neighbours."""

Place = tuple[float, float, float]
"""Left, top and width of a box."""


def svg_text(diagram: Diagram) -> str:
    """Return the graph as an SVG document."""
    layers = _arranged(diagram)
    vertices = {vertex.name: vertex for vertex in diagram.vertices}
    places = _places(layers, vertices)
    width = max((left + wide for left, _, wide in places.values()), default=0) + MARGIN
    height = len(layers) * LAYER - (LAYER - HEIGHT) + 2 * MARGIN if layers else 2 * MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12">'
    )
    out = [
        head,
        f"<title>{escape(diagram.title)}</title>",
        TIP,
        *(_arrow(places[source], places[target]) for source, target in diagram.edges),
        *(_box(vertices[name], place) for name, place in places.items()),
        "</svg>",
    ]
    return "\n".join(out) + "\n"


def _arranged(diagram: Diagram) -> list[list[str]]:
    """Return the layers, each ordered by where its neighbours stand, so that few lines cross."""
    layers = diagram.layers()
    beside: dict[str, list[str]] = {vertex.name: [] for vertex in diagram.vertices}
    for source, target in diagram.edges:
        beside[source].append(target)
        beside[target].append(source)
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 else reversed(layers):
            place = {name: index / max(len(row), 1) for row in layers for index, name in enumerate(row)}
            layer.sort(key=lambda name: _middle([place[other] for other in beside[name]], place[name]))
    return layers


def _middle(found: Sequence[float], otherwise: float) -> float:
    return sum(found) / len(found) if found else otherwise


def _places(layers: Sequence[Sequence[str]], vertices: Mapping[str, Vertex]) -> dict[str, Place]:
    """Return where each box stands, every layer centred."""
    wide = {name: LETTER * max(map(len, _lines(vertex))) + 16 for name, vertex in vertices.items()}
    lengths = [sum(wide[name] for name in layer) + GAP * (len(layer) - 1) for layer in layers]
    longest = max(lengths, default=0)
    found: dict[str, Place] = {}
    for level, layer in enumerate(layers):
        left = MARGIN + (longest - lengths[level]) / 2
        top = MARGIN + (len(layers) - 1 - level) * LAYER
        for name in layer:
            found[name] = (left, top, wide[name])
            left += wide[name] + GAP
    return found


def _lines(vertex: Vertex) -> tuple[str, str]:
    action = f": {vertex.action}" if vertex.action not in ("", "none") else ""
    return vertex.label, f"{vertex.node}{action}"


def _box(vertex: Vertex, place: Place) -> str:
    left, top, width = place
    fill = FILLS.get(vertex.action, UNTOUCHED)
    first, second = _lines(vertex)
    middle = left + width / 2
    return (
        f"<g><title>{escape(vertex.name)}</title>"
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{HEIGHT}" rx="6" '
        f"fill={quoteattr(fill)} stroke='#666'/>"
        f'<text x="{middle:.1f}" y="{top + 17:.1f}" text-anchor="middle">{escape(first)}</text>'
        f'<text x="{middle:.1f}" y="{top + 32:.1f}" text-anchor="middle" fill="#555">{escape(second)}</text>'
        "</g>"
    )


def _arrow(source: Place, target: Place) -> str:
    from_x, from_y = source[0] + source[2] / 2, source[1] + HEIGHT
    to_x, to_y = target[0] + target[2] / 2, target[1]
    bend = (to_y - from_y) / 2
    return (
        f'<path d="M{from_x:.1f} {from_y:.1f}C{from_x:.1f} {from_y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} '
        f'{to_x:.1f} {to_y:.1f}" fill="none" stroke="#666" marker-end="url(#tip)"/>'
    )
