from hypothesis import given
from hypothesis import strategies as st

from hetctl.errors import Position, Problem
from hetctl.report.problems import columns, problems_for_github, problems_text
from hetctl.report.terminal import PLAIN, Terminal

PROBLEM = Problem(
    code="E101",
    message="unknown key 'prot' in 'server' of placement 'chat'",
    position=Position("cluster.yaml", 14, 14),
    source_line="    server: {prot: 8080}",
    width=4,
    hint="did you mean 'port'?",
    path=("placements", "chat", "server", "prot"),
)


def _caret(line: str, column: int, width: int, *, terminal: Terminal = PLAIN) -> tuple[str, str]:
    problem = Problem("E1", "m", Position("f", 1, column), source_line=line, width=width)
    shown = problems_text([problem], terminal).splitlines()
    source, marks = shown[2][4:], shown[3][4:]
    return source, marks


def test_a_problem_shows_place_line_caret_and_hint() -> None:
    assert (
        problems_text([PROBLEM])
        == """\
cluster.yaml:14:14: E101 unknown key 'prot' in 'server' of placement 'chat'
   |
14 |     server: {prot: 8080}
   |              ^^^^ did you mean 'port'?

1 problem. docs/manifest-errors.md explains the codes.
"""
    )


def test_a_problem_of_a_whole_file_has_no_line() -> None:
    problem = Problem("E001", "cannot read it", Position("gone.yaml"), hint="check the path")
    assert problems_text([problem]).startswith("gone.yaml: E001 cannot read it\n  = check the path\n")


def test_problems_and_warnings_are_counted() -> None:
    warning = Problem("W302", "open", Position("f", 1, 1))
    assert problems_text([PROBLEM, PROBLEM, warning]).splitlines()[-1].startswith("2 problems and 1 warning.")
    assert problems_text([]) == ""


def test_colour_only_where_it_is_understood() -> None:
    assert "\x1b[" not in problems_text([PROBLEM])
    assert "\x1b[31mE101\x1b[0m" in problems_text([PROBLEM], Terminal(colour=True))
    assert "\x1b[33mW1\x1b[0m" in problems_text([Problem("W1", "m", Position("f"))], Terminal(colour=True))


def test_the_caret_stands_under_wide_letters_and_tabs() -> None:
    assert _caret("漢字: x", 5, 1) == ("漢字: x", "      ^")
    assert _caret("漢字: x", 1, 2) == ("漢字: x", "^^^^")
    assert _caret("a:\tx", 4, 1) == ("a: x", "   ^")
    assert _caret("e\u0301: x", 5, 1) == ("e\u0301: x", "   ^")


def test_a_long_line_is_cut_around_the_caret() -> None:
    line = "a: [" + ", ".join(f"item{number:03}" for number in range(80)) + "]"
    column = line.index("item040") + 1
    source, marks = _caret(line, column, 7, terminal=Terminal(width=80))
    assert source.startswith("…")
    assert source.endswith("…")
    assert columns(source) <= 80
    assert source[len(marks) - 7 : len(marks)] == "item040"


def test_what_cannot_be_printed_is_replaced() -> None:
    source, _ = _caret("a\u200b\u0c70\x1bb", 1, 1)
    assert source == "a\ufffd\ufffd\ufffdb"


@given(st.text(max_size=300), st.integers(1, 400), st.integers(1, 50), st.integers(1, 200))
def test_any_line_fits(line: str, column: int, width: int, room: int) -> None:
    problem = Problem("E1", "m", Position("f", 1, column), source_line=line.replace("\n", ""), width=width)
    for shown in problems_text([problem], Terminal(width=room)).split("\n")[2:4]:
        assert columns(shown) <= 2 * max(room, 60) + 60


def test_github_gets_workflow_commands() -> None:
    line = problems_for_github([PROBLEM])
    assert line == (
        "::error file=cluster.yaml,line=14,col=14,endColumn=17,title=E101"
        "::unknown key 'prot' in 'server' of placement 'chat' (did you mean 'port'?)\n"
    )
    tricky = Problem("W1", "100% of a\nb", Position("a,b:c.yaml"))
    assert problems_for_github([tricky]) == "::warning file=a%2Cb%3Ac.yaml,title=W1::100%25 of a%0Ab\n"
