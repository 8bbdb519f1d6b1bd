import json
import re
from pathlib import Path
from typing import Any

import pytest

from hetctl.errors import ManifestInvalid
from hetctl.manifest import load_text
from hetctl.manifest.codes import CODES, EXAMPLE_BASE
from hetctl.manifest.parser import parse
from hetctl.manifest.tree import File, plain
from tests.manifest.corpus import BAD, expected

PACKAGE = Path(__file__).parents[2] / "hetctl"


def _data(text: str) -> Any:
    (document,) = parse(File("a.yaml", Path(), tuple(text.split("\n"))), text).documents
    return plain(document)


def _merged(base: Any, change: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    return {key: _merged(base.get(key), change.get(key, base.get(key))) for key in {**base, **change}}


def _codes(text: str) -> set[str]:
    with pytest.raises(ManifestInvalid) as caught:
        load_text(text)
    return {problem.code for problem in caught.value.problems}


@pytest.mark.parametrize("code", [code for code, entry in CODES.items() if entry.example])
def test_every_example_has_the_error_it_explains(code: str) -> None:
    example = CODES[code].example
    if code.startswith("E0"):
        assert code in _codes(example)
    elif code == "E203":
        assert code in _codes(EXAMPLE_BASE.replace("name: den\n", ""))
    else:
        assert _codes(json.dumps(_merged(_data(EXAMPLE_BASE), _data(example)))) >= {code}


def test_the_base_of_examples_is_right() -> None:
    load_text(EXAMPLE_BASE)


def test_every_code_in_the_sources_is_explained() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    used = set(re.findall(r'"(E[012]\d\d)"', sources)) | set(re.findall(r'"(W3\d\d)"', sources))
    assert used == set(CODES)


def test_every_code_that_a_manifest_alone_can_have_is_in_the_corpus() -> None:
    sources = [path for path in (PACKAGE / "manifest").rglob("*.py") if path.parent.name != "codes"]
    used = {code for path in sources for code in re.findall(r'"(E\d{3})"', path.read_text(encoding="utf-8"))}
    seen = {code for path in BAD for code, _, _ in expected(path)}
    assert used - seen == {"E001", "E002", "E099"}, "test_reader and test_loader have these"
