"""The operator's own machine and its cache."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from hetctl.transport.workstation import Workstation

CLAIM = """
    import sys
    from pathlib import Path
    from hetctl.transport.workstation import Workstation

    def waiting():
        raise AssertionError("nobody else has it")

    with Workstation(Path(sys.argv[1])).claimed("key", waiting=waiting):
        print("claimed", flush=True)
        sys.stdin.read()
"""


class GaveUpError(Exception):
    """Stands for a person who does not want to wait."""


def test_the_cache_is_where_the_environment_says(tmp_path: Path) -> None:
    here = Workstation.from_environment({"XDG_CACHE_HOME": str(tmp_path)})
    assert here.cache == tmp_path / "hetctl"
    assert Workstation.from_environment({}).cache == Path.home() / ".cache" / "hetctl"


def test_a_digest_is_that_of_the_present_content(tmp_path: Path) -> None:
    here, file = Workstation(tmp_path / "cache"), tmp_path / "file"
    file.write_text("one")
    first = here.digest(file)
    assert here.known_digest(file) == first
    file.write_text("two")
    os.utime(file, ns=(1, 1))
    assert here.known_digest(file) is None
    assert here.digest(file) != first


def test_a_build_counts_once_it_is_described(tmp_path: Path) -> None:
    here = Workstation(tmp_path)
    unfinished = here.scratch("key.tar")
    unfinished.write_bytes(b"binaries")
    assert here.built("key") is None
    here.keep_build("key", unfinished, {"identity": "b1"})
    assert here.built("key") == {"identity": "b1"}
    assert here.build_archive("key").read_bytes() == b"binaries"
    here.build_archive("key").unlink()
    assert here.built("key") is None


def test_one_process_at_a_time_compiles_a_build(tmp_path: Path) -> None:
    def waiting() -> None:
        raise GaveUpError

    command = [sys.executable, "-c", textwrap.dedent(CLAIM), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "claimed\n"
        here = Workstation(tmp_path)
        with pytest.raises(GaveUpError), here.claimed("key", waiting=waiting):
            raise AssertionError("two processes had it")
        with here.claimed("another", waiting=waiting):
            other.kill()
            other.wait()
        with here.claimed("key", waiting=waiting):
            assert not (tmp_path / "builds" / "key.json").exists()
