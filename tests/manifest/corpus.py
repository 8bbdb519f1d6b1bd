"""The manifests under cases/: what each is expected to be."""

from __future__ import annotations

import re
from pathlib import Path

CASES = Path(__file__).parent / "cases"
BAD = sorted((CASES / "bad").glob("*.yaml"))
GOOD = sorted((CASES / "good").iterdir())

Place = tuple[str, int, int]
"""Code, line, column."""


def expected(path: Path) -> list[Place]:
    """Return what the `# expect:` lines at the top of a bad case announce."""
    found = re.findall(r"(?m)^# expect: (E\d{3}) (\d+):(\d+)$", path.read_text(encoding="utf-8"))
    return [(code, int(line), int(column)) for code, line, column in found]
