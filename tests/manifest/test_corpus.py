from pathlib import Path

import pytest

from hetctl.errors import ManifestInvalid
from hetctl.manifest import load
from hetctl.manifest.references import resolve
from tests.manifest.corpus import BAD, GOOD, expected


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_every_problem_is_found_at_its_place(path: Path) -> None:
    with pytest.raises(ManifestInvalid) as caught:
        load([path])
    found = [(p.code, p.position.line, p.position.column) for p in caught.value.problems]
    assert expected(path), "a bad case announces what is wrong with it"
    assert found == expected(path)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_every_problem_can_be_understood(path: Path) -> None:
    with pytest.raises(ManifestInvalid) as caught:
        load([path])
    for problem in caught.value.problems:
        assert problem.position.file == str(path)
        assert problem.message
        assert "\n" not in problem.message + problem.hint
        assert (problem.message + problem.hint).isprintable()
        assert not problem.message.endswith(".")
        assert problem.width >= 1
        assert problem.hint, "says how to mend it"
        if problem.source_line:
            line = path.read_text(encoding="utf-8").split("\n")[problem.position.line - 1]
            assert len(problem.source_line) == len(line)
            assert problem.position.column - 1 + problem.width <= max(len(line), problem.position.column)


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good_manifests_load_and_resolve(path: Path) -> None:
    cluster = load([path])
    assert set(resolve(cluster).placements) == set(cluster.placements)


def test_the_corpus_is_not_lost() -> None:
    assert len(BAD) >= 200
    assert len(GOOD) >= 8
