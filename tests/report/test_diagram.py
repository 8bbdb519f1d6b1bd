"""A graph as text, for Mermaid and Graphviz, and as a picture that every browser shows."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetctl.engine.diagram import Diagram, Vertex
from hetctl.report.diagram import dot_text, mermaid_text, tree_text
from hetctl.report.diagram_svg import svg_text
from hetctl.report.terminal import PLAIN

SVG = "{http://www.w3.org/2000/svg}"
SAMPLE = Diagram(
    "den",
    (
        Vertex("member/atlas", "member/atlas", "atlas", "none"),
        Vertex("build", "build/main", "atlas", "update"),
        Vertex("worker", "worker/chat", "pascal", "create"),
        Vertex("server", "server/chat", "atlas", "restart"),
    ),
    (("build", "member/atlas"), ("worker", "member/atlas"), ("server", "build"), ("server", "worker")),
)
LETTERS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@st.composite
def diagrams(draw: st.DrawFn) -> Diagram:
    names = draw(st.lists(LETTERS, max_size=8, unique=True))
    vertices = tuple(Vertex(name, draw(LETTERS), draw(LETTERS), "create") for name in names)
    pairs = [(later, earlier) for index, later in enumerate(names) for earlier in names[:index]]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=12)) if pairs else []
    return Diagram(draw(LETTERS), vertices, tuple(edges))


def test_trees_tell_everything_once() -> None:
    assert tree_text(SAMPLE, PLAIN).splitlines() == [
        "server/chat on atlas  restart",
        "|- build/main on atlas  update",
        "|  `- member/atlas on atlas",
        "`- worker/chat on pascal  create",
        "   `- member/atlas on atlas",
    ]


def test_what_was_told_is_pointed_at() -> None:
    deep = Diagram(
        "den",
        (*SAMPLE.vertices, Vertex("other", "server/code", "atlas", "none")),
        (*SAMPLE.edges, ("other", "build")),
    )
    assert tree_text(deep, PLAIN).count("(see above)") == 1


def test_layers_begin_with_what_needs_nothing() -> None:
    assert SAMPLE.layers() == [["member/atlas"], ["build", "worker"], ["server"]]


def test_mermaid() -> None:
    lines = mermaid_text(SAMPLE).splitlines()
    assert lines[0] == "flowchart BT"
    assert '    v1["build/main<br>update"]' in lines
    assert "  v3 --> v1" in lines
    assert "  style v2 fill:#d4f4d4" in lines


@given(diagrams())
def test_no_name_breaks_out_of_its_quotes(diagram: Diagram) -> None:
    for line in mermaid_text(diagram).splitlines():
        if '["' in line:
            inner = line.split('["', 1)[1].removesuffix('"]')
            assert not set('"<>') & set(inner.replace("<br>", ""))
    for line in dot_text(diagram).splitlines():
        assert line.replace("\\\\", "").replace('\\"', "").count('"') % 2 == 0


@given(diagrams())
def test_the_picture_is_well_formed_and_whole(diagram: Diagram) -> None:
    root = ET.fromstring(svg_text(diagram))  # noqa: S314 - our own output
    assert len(root.findall(f"{SVG}g")) == len(diagram.vertices)
    assert len(root.findall(f"{SVG}path")) == len(diagram.edges)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [box.attrib for box in root.iter(f"{SVG}rect")]
    for box in boxes:
        assert 0 <= float(box["x"]) <= width - float(box["width"]) + 0.1
        assert 0 <= float(box["y"]) <= height - float(box["height"]) + 0.1
    places = [(float(box["y"]), float(box["x"]), float(box["width"])) for box in boxes]
    for row in {place[0] for place in places}:
        here = sorted(place[1:] for place in places if place[0] == row)
        assert all(left + wide <= following for (left, wide), (following, _) in itertools.pairwise(here))


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@given(diagrams())
def test_graphviz_takes_it(diagram: Diagram) -> None:
    subprocess.run(["dot", "-Tsvg"], input=dot_text(diagram), text=True, check=True, capture_output=True)
