"""Fetch what the tests use and cannot fetch themselves, since they run without a network.

python -m tests.lab.prepare
"""

from __future__ import annotations

import sys
import time

from tests.lab.parts import PARTS, prepare
from tests.lab.process import LabError


def main() -> int:
    """Prepare every part and return the exit status."""
    for part in PARTS.values():
        if part.path().exists():
            continue
        sys.stderr.write(f"prepare: {part.file}\n")
        start = time.monotonic()
        try:
            path = prepare(part)
        except LabError as error:
            sys.stderr.write(f"prepare: {error}\n")
            return 1
        sys.stderr.write(
            f"prepare: {path} ({path.stat().st_size >> 20} MiB, {time.monotonic() - start:.0f} s)\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
