"""Files -> cluster, or every problem there is in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hetctl.errors import ManifestInvalid, Problem
from hetctl.manifest.availability import check_availability
from hetctl.manifest.checks import cross_check
from hetctl.manifest.cluster import Cluster
from hetctl.manifest.draft import merge
from hetctl.manifest.parser import NODE_LIMIT, parse
from hetctl.manifest.problem_list import ProblemList, arranged
from hetctl.manifest.reader import decode, read
from hetctl.manifest.shape import check_shape
from hetctl.manifest.source import Source
from hetctl.manifest.tree import File, Keys, plain


def load(paths: Sequence[Path | str]) -> Cluster:
    """Read a manifest.

    Arguments:
        paths: Files; a directory stands for its *.yaml and *.yml, not recursive, sorted; `-` is standard
            input.

    Returns:
        The cluster, with every default filled in that does not depend on other keys.

    Raises:
        ManifestInvalid: Something is wrong; carries every problem found, in file order.
    """
    reading = read(paths)
    return _load(reading.files, reading.problems)


def load_text(text: str, name: str = "cluster.yaml") -> Cluster:
    """Read a manifest from `text`, as if it were the file `name`.

    Raises:
        ManifestInvalid: As for `load`.
    """
    decoded = decode(name, text.encode("utf-8", "surrogatepass"))
    if isinstance(decoded, Problem):
        raise ManifestInvalid((decoded,))
    return _load([decoded], ())


def _load(files: Sequence[tuple[File, str]], unreadable: Iterable[Problem]) -> Cluster:
    problems = list(unreadable)
    complete = not problems
    trees: list[Keys] = []
    room = NODE_LIMIT
    for file, text in files:
        parsed = parse(file, text, room=room)
        room = max(room - parsed.size, 0)
        problems += parsed.problems
        complete = complete and parsed.complete
        trees += parsed.documents if parsed.complete else ()
    source = Source(trees, [file for file, _ in files])
    documents = [(tree, plain(tree, extensions=False)) for tree in trees]
    shape: list[Problem] = []
    for tree, data in documents:
        alone = Source([tree])
        shape += check_shape(tree, data, alone)
        missing = ProblemList(alone)
        check_availability(data, missing)
        problems += missing.found
    problems += shape
    cluster: Cluster | None = None
    if complete:
        draft = merge(documents, shape, source)
        cross_check(draft)
        problems += draft.problems.found
        cluster = draft.cluster
    if problems or cluster is None:
        raise ManifestInvalid(arranged(problems, source.digests))
    return cluster
