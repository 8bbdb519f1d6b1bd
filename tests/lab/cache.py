"""Where the tests keep what is expensive to make or fetch: outside the checkout, keyed by content."""

from __future__ import annotations

import os
import pwd
from pathlib import Path


def cache_directory() -> Path:
    """Return the tests' cache directory; `HOME` may be unset."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "hetctl-test"
    home = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    return Path(home) / ".cache" / "hetctl-test"
