from pathlib import Path

from hetctl.manifest.parser import NODE_LIMIT, Parsed, parse
from hetctl.manifest.tree import File, Items, Keys, Scalar, Tree, plain


def _parse(text: str) -> Parsed:
    return parse(File("a.yaml", Path(), tuple(text.split("\n"))), text)


def _root(text: str) -> Keys:
    parsed = _parse(text)
    assert not parsed.problems
    (root,) = parsed.documents
    return root


def _place(tree: Tree) -> tuple[int, int, int]:
    return tree.span.line, tree.span.column, tree.span.width


def test_every_key_and_value_knows_its_place() -> None:
    root = _root("a: one\nlong key : 'two three'\nb:\n  - x\n  - {c: [1, 22]}\n")
    assert _place(root.entries["a"].value) == (1, 4, 3)
    entry = root.entries["long key"]
    assert (entry.key.line, entry.key.column, entry.key.width) == (2, 1, 8)
    assert _place(entry.value) == (2, 12, 11)
    items = root.entries["b"].value
    assert isinstance(items, Items)
    assert _place(items.items[0]) == (4, 5, 1)
    assert _place(items.items[1]) == (5, 5, 12)


def test_columns_count_characters() -> None:
    root = _root("ключ: 'é'\n🂡: 漢字\n")
    assert _place(root.entries["ключ"].value) == (1, 7, 3)
    assert _place(root.entries["🂡"].value) == (2, 4, 2)


def test_a_text_over_several_lines_is_marked_to_the_end_of_its_first() -> None:
    root = _root("a: |\n  one\n  two\nb: 'x\n  y'\n")
    assert _place(root.entries["a"].value) == (1, 4, 1)
    assert _place(root.entries["b"].value) == (4, 4, 2)
    assert plain(root) == {"a": "one\ntwo\n", "b": "x y"}


def test_quotes_and_tags_make_text() -> None:
    root = _root("a: '1'\nb: \"true\"\nc: !!str 1.10\nd: ! 7\ne: |\n  1\n'1': k\n")
    assert plain(root) == {"a": "1", "b": "true", "c": "1.10", "d": "7", "e": "1\n", "1": "k"}


def test_an_alias_stands_where_it_is_used_and_its_parts_where_they_were_written() -> None:
    root = _root("a: &a {b: 1}\nc: *a\n")
    value = root.entries["c"].value
    assert _place(value) == (2, 4, 2)
    assert isinstance(value, Keys)
    assert _place(value.entries["b"].value) == (1, 11, 1)


def test_merges_give_way_to_what_is_written_and_the_first_wins() -> None:
    root = _root("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {z: 3, <<: [*a, *b], w: 3}\nd: {<<: {q: 1}}\n")
    assert plain(root.entries["c"].value) == {"z": 3, "w": 3, "x": 1, "y": 1}
    assert plain(root.entries["d"].value) == {"q": 1}


def test_a_quoted_merge_key_is_a_key() -> None:
    assert plain(_root("a: {'<<': 1}\n")) == {"a": {"<<": 1}}


def test_anchors_may_be_used_again_for_something_else() -> None:
    assert plain(_root("a: &x 1\nb: *x\nc: &x 2\nd: *x\n")) == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_a_key_may_be_an_alias() -> None:
    assert plain(_root("a: &x key\n*x : value\n")) == {"a": "key", "key": "value"}


def test_the_first_of_two_equal_keys_is_kept_and_the_rest_is_read() -> None:
    parsed = _parse("a: 1\na: 2\nb: 3\nb: 4\n")
    assert parsed.complete
    assert [problem.code for problem in parsed.problems] == ["E007", "E007"]
    assert plain(parsed.documents[0]) == {"a": 1, "b": 3}


def test_what_is_counted_is_what_aliases_stand_for() -> None:
    parsed = _parse("a: &a [1, 2]\nb: *a\n")
    assert parsed.size == 1 + 2 + 3 + 3
    text = "a: &a [" + "1, " * 97 + "]\nb: [" + "*a, " * 203 + "]\n"
    assert _parse(text).size == NODE_LIMIT - 4
    assert _parse(text + "c: d\n").complete
    assert [p.code for p in _parse(text + "c: [1, 2, 3]\n").problems] == ["E012"]


def test_documents_without_content_are_skipped() -> None:
    parsed = _parse("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n...\n")
    assert [plain(root) for root in parsed.documents] == [{"a": 1}, {"b": 2}]


def test_a_leaf_is_a_scalar() -> None:
    value = _root("a: 1.10\n").entries["a"].value
    assert isinstance(value, Scalar)
    assert (value.text, value.value) == ("1.10", 1.1)
