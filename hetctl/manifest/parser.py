"""Text of one file -> trees of its documents, or what is wrong with it as YAML (E0xx).

Works on the parser's event stream with a stack of its own: no recursion, no constructors, no tags, and a
bound on depth and on the number of nodes once aliases are expanded. Time is linear in the text, whose size
the reader bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hetctl.errors import Problem
from hetctl.manifest.masking import may_hold_secret
from hetctl.manifest.scalars import LONGEST_NUMBER, resolve
from hetctl.manifest.tree import Entry, File, Items, Keys, Scalar, Span, Tree, moved
from hetctl.manifest.wording import quoted

DEPTH_LIMIT: Final = 40
"""Deepest nesting; the manifest itself needs eight."""

NODE_LIMIT: Final = 20_000
"""Most keys and values of a manifest, aliases expanded; a hundred nodes take about three thousand."""

DOCUMENT_LIMIT: Final = 1000
"""Most documents of a file."""

_STRING_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})

_EXPLANATIONS: Final = (
    ("found character '\\t'", "E006", "a tab cannot indent", "indent with spaces"),
    (
        "mapping values are not allowed here",
        "E005",
        "a second ': ' here makes no sense",
        "quote a value that holds ': ', or give each key its line; is a ':' missing on the line above?",
    ),
    (
        "sequence entries are not allowed here",
        "E005",
        "a '- ' cannot follow a key on its line",
        "put the list on the lines below, or write it as [a, b]",
    ),
    ("expected ',' or ']'", "E005", "a list that was opened with '[' is not closed", "close it with ']'"),
    ("expected ',' or '}'", "E005", "a mapping that was opened with '{' is not closed", "close it with '}'"),
    ("found unexpected end of stream", "E005", "a quote is not closed", "close it"),
    (
        "expected <block end>",
        "E005",
        "this line does not fit the indentation of the lines above",
        "keys of one mapping, and items of one list, start in the same column",
    ),
    ("could not find expected ':'", "E005", "a key without ':'", "write `key: value`"),
    ("cannot start any token", "E005", "a value cannot begin with this character", "quote the value"),
    (
        "found unknown escape character",
        "E005",
        "an unknown escape in a double-quoted text",
        "use single quotes",
    ),
    (
        "incompatible YAML document",
        "E017",
        "the YAML version is not one this can read",
        "remove the %YAML line",
    ),
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file holds.

    Arguments:
        documents: Its documents that are mappings, in order.
        problems: What is wrong with it.
        complete: False when some of its content could not be understood at all.
        size: Keys and values in it, aliases expanded.
    """

    documents: tuple[Keys, ...]
    problems: tuple[Problem, ...]
    complete: bool
    size: int


def parse(file: File, text: str, *, room: int = NODE_LIMIT) -> Parsed:
    """Read all documents of a file. Never raises, whatever the text.

    Arguments:
        file: The file.
        text: Its content.
        room: How many keys and values it may hold, aliases expanded.
    """
    builder = _Builder(file, room)
    try:
        for event in _events(file, text):
            builder.take(event)
    except _Stop as stop:
        builder.report(stop.code, stop.message, stop.span, stop.hint)
        builder.complete = False
    if builder.complete and not builder.roots:
        builder.report(
            "E004", "the file is empty", Span(file, 1, 1), "`hetctl schema cluster` says what belongs in it"
        )
        builder.complete = False
    return Parsed(tuple(builder.roots), tuple(builder.problems), builder.complete, builder.total)


class _Stop(Exception):  # noqa: N818 - ends the reading of one file, never leaves this module
    def __init__(self, code: str, message: str, hint: str, span: Span) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.span = span


def _events(file: File, text: str) -> Iterator[Any]:
    """Yield the parser's events; whatever it raises becomes _Stop."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - needed only once there is text
    from ruamel.yaml.error import MarkedYAMLError  # noqa: PLC0415 - as above

    events = iter(YAML(typ="safe", pure=True).parse(text))
    last = Span(file, 1, 1)
    while True:
        try:
            event = next(events)
        except StopIteration:
            return
        except MarkedYAMLError as error:
            raise _explain(file, error) from error
        except Exception as error:  # the parser slips on bad escapes and directives in many ways
            message = f"the YAML parser gave up after this: {type(error).__name__}"
            raise _Stop("E005", message, "look at the escapes and directives that follow", last) from error
        last = _span(file, event)
        yield event


def _explain(file: File, error: Any) -> _Stop:
    """Put the parser's complaint in words of our own, and keep its own where we have none."""
    mark = error.problem_mark or error.context_mark
    span = Span(file, mark.line + 1, mark.column + 1) if mark else Span(file, 1, 1)
    said = str(error.problem or error.context or "not YAML")
    for part, code, message, hint in _EXPLANATIONS:
        if part in said:
            if error.context_mark is not None and "is not closed" in message:
                message = f"{message} (opened in line {error.context_mark.line + 1})"  # noqa: PLW2901 - refined
            return _Stop(code, message, hint, span)
    return _Stop("E005", "not YAML: " + quoted(said)[1:-1], "quote the value if it is meant as text", span)


def _span(file: File, event: Any) -> Span:
    start, end = event.start_mark, event.end_mark
    line = start.line + 1
    if end.line == start.line:
        width = end.column - start.column
    else:
        width = len(file.lines[start.line]) - start.column if start.line < len(file.lines) else 1
    return Span(file, line, start.column + 1, max(width, 1))


@dataclass(slots=True)
class _Anchor:
    """What `&name` stands for; no tree while it is still open."""

    tree: Tree | None = None
    size: int = 1
    height: int = 1


@dataclass(slots=True)
class _Frame:
    """A collection that is not closed yet.

    Arguments:
        tree: The collection so far.
        flow: Written with brackets or braces.
        anchor: Its anchor, to be filled in when it closes.
        size: Nodes in it, aliases expanded.
        height: Levels in it.
        key: The key that waits for its value.
        ignored: True when that key cannot be used.
        merge: True when that key is `<<`.
        merged: What was merged into it, in order.
    """

    tree: Items | Keys
    flow: bool
    anchor: _Anchor | None
    size: int = 1
    height: int = 1
    key: tuple[str, Span] | None = None
    ignored: bool = False
    merge: bool = False
    merged: list[Keys] = field(default_factory=list)


class _Builder:
    def __init__(self, file: File, room: int) -> None:
        self.file = file
        self._room = room
        self._documents = 0
        self.problems: list[Problem] = []
        self.roots: list[Keys] = []
        self.complete = True
        self._stack: list[_Frame] = []
        self._anchors: dict[str, _Anchor] = {}
        self.total = 0

    def report(self, code: str, message: str, span: Span, hint: str = "") -> None:
        line = "" if may_hold_secret(span) else span.text
        self.problems.append(
            Problem(code, message, span.position, source_line=line, width=span.width, hint=hint)
        )

    def take(self, event: Any) -> None:
        match type(event).__name__:
            case "DocumentStartEvent":
                self._anchors.clear()
                self._documents += 1
                if self._documents > DOCUMENT_LIMIT:
                    message = f"more than {DOCUMENT_LIMIT:,} documents in one file"
                    raise _Stop("E012", message, "put them into one", _span(self.file, event))
                if event.version not in (None, (1, 2)):
                    self.report(
                        "E017",
                        "manifests are YAML 1.2",
                        _span(self.file, event),
                        "remove the %YAML line above",
                    )
            case "ScalarEvent":
                self._scalar(event)
            case "AliasEvent":
                self._alias(event)
            case "SequenceStartEvent":
                self._open(event, Items(_span(self.file, event)))
            case "MappingStartEvent":
                self._open(event, Keys(_span(self.file, event)))
            case "SequenceEndEvent" | "MappingEndEvent":
                self._close(event)

    def _count(self, size: int, height: int, span: Span) -> None:
        self.total += size
        if self.total > self._room:
            message = f"the manifest holds more than {NODE_LIMIT:,} keys and values, aliases written out"
            raise _Stop("E012", message, "divide the cluster, or use fewer aliases", span)
        if len(self._stack) + height > DEPTH_LIMIT:
            raise _Stop("E011", f"nested more than {DEPTH_LIMIT} levels deep", "a manifest needs eight", span)

    def _check_tag(self, event: Any, span: Span, allowed: frozenset[str] = frozenset()) -> bool:
        """Report any tag but the allowed ones; return whether the value is tagged as text."""
        if event.tag is None:
            return False
        if event.tag not in allowed:
            self.report(
                "E008", f"the tag {quoted(str(event.tag))} is not used in manifests", span, "remove it"
            )
        return event.tag in allowed

    def _scalar(self, event: Any) -> None:
        span = _span(self.file, event)
        text = str(event.value)
        tagged = self._check_tag(event, span, _STRING_TAGS)
        value: Any = text
        if event.style is None and not tagged:
            try:
                value = resolve(text)
            except OverflowError:
                self.report(
                    "E016", f"a number of more than {LONGEST_NUMBER} digits", span, "quote it if it is text"
                )
        if bad := next((c for c in text if (c < " " and c not in "\n\t") or "\ud800" <= c <= "\udfff"), None):
            self.report(
                "E018", f"the text holds the control character U+{ord(bad):04X}", span, "remove the escape"
            )
        node = Scalar(span, text, value)
        self._count(1, 1, span)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(node)
        self._place(node, 1, 1, merge=text == "<<" and event.style is None and not tagged)

    def _alias(self, event: Any) -> None:
        span = _span(self.file, event)
        anchor = self._anchors.get(event.anchor)
        name = quoted(event.anchor)
        if anchor is None:
            raise _Stop(
                "E009",
                f"there is no anchor {name} before this line",
                "anchors work within one document",
                span,
            )
        if anchor.tree is None:
            raise _Stop("E010", f"the alias {name} contains itself", "write out one of the two", span)
        self._count(anchor.size, anchor.height, span)
        self._place(moved(anchor.tree, span), anchor.size, anchor.height)

    def _open(self, event: Any, tree: Items | Keys) -> None:
        self._check_tag(event, tree.span)
        self._count(1, 1, tree.span)
        anchor = None
        if event.anchor is not None:
            anchor = self._anchors[event.anchor] = _Anchor()
        self._stack.append(_Frame(tree, bool(event.flow_style), anchor))

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        tree, span = frame.tree, frame.tree.span
        width = 1
        if frame.flow and event.end_mark.line == span.line - 1:
            width = max(event.end_mark.column - span.column + 1, 1)
        elif frame.flow:
            width = span.width
        tree.span = Span(span.file, span.line, span.column, width)
        if isinstance(tree, Keys):
            for merged in frame.merged:
                for name, entry in merged.entries.items():
                    tree.entries.setdefault(name, entry)
        if frame.anchor is not None:
            frame.anchor.tree, frame.anchor.size, frame.anchor.height = tree, frame.size, frame.height
        self._place(tree, frame.size, frame.height)

    def _place(self, tree: Tree, size: int, height: int, *, merge: bool = False) -> None:
        """Put a finished node where it belongs: a root, an item, a key or a value."""
        if not self._stack:
            self._root(tree)
            return
        frame = self._stack[-1]
        frame.size += size
        frame.height = max(frame.height, height + 1)
        if isinstance(frame.tree, Items):
            frame.tree.items.append(tree)
        elif frame.key is None and not frame.ignored and not frame.merge:
            self._key(frame, tree, merge=merge)
        else:
            self._value(frame, frame.tree, tree)

    def _key(self, frame: _Frame, tree: Tree, *, merge: bool) -> None:
        frame.merge = merge
        if merge:
            return
        if not isinstance(tree, Scalar):
            self.report("E014", "a key must be a text, not a list or mapping", tree.span, "quote it")
            frame.ignored = True
            return
        if not isinstance(tree.value, str):
            self.report(
                "E014", f"the key {tree.text or 'null'} is no text", tree.span, f'write "{tree.text}"'
            )
        frame.key = (tree.text, tree.span)

    def _value(self, frame: _Frame, tree: Keys, value: Tree) -> None:
        if frame.merge:
            self._merge(frame, value)
        elif frame.key is not None:
            name, span = frame.key
            if name in tree.entries:
                first = tree.entries[name].key
                self.report(
                    "E007",
                    f"the key {quoted(name)} stands here twice, first in line {first.line}",
                    span,
                    "keep one of them",
                )
            else:
                tree.entries[name] = Entry(span, value)
        frame.key, frame.ignored, frame.merge = None, False, False

    def _merge(self, frame: _Frame, value: Tree) -> None:
        for part in value.items if isinstance(value, Items) else [value]:
            if isinstance(part, Keys):
                frame.merged.append(part)
            else:
                self.report(
                    "E013", "only a mapping can be merged with <<", part.span, "point it at a mapping"
                )

    def _root(self, tree: Tree) -> None:
        if isinstance(tree, Keys):
            self.roots.append(tree)
        elif not (isinstance(tree, Scalar) and tree.value is None):
            self.report(
                "E015",
                "a manifest is a mapping of keys, and this is not",
                tree.span,
                "begin with `apiVersion: hetctl/v1`",
            )
            self.complete = False
