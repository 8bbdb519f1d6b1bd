"""known_hosts files, compared with what ssh-keygen reads and writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hetctl.transport.known_hosts import HostKey, lookup, matches, parse, record


@pytest.fixture
def key(tmp_path: Path) -> HostKey:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "k"], check=True)
    kind, blob, *_ = (tmp_path / "k.pub").read_text().split()
    return HostKey(kind, blob)


@pytest.mark.parametrize(
    ("patterns", "name", "found"),
    [
        ("atlas", "atlas", True),
        ("atlas", "ATLAS", True),
        ("atlas", "atlas2", False),
        ("atlas,10.0.0.5", "10.0.0.5", True),
        ("*.lan", "atlas.lan", True),
        ("*.lan,!bench.lan", "bench.lan", False),
        ("10.0.0.?", "10.0.0.5", True),
        ("10.0.0.?", "10.0.0.15", False),
        ("[atlas]:2222", "[atlas]:2222", True),
        ("[atlas]:2222", "a", False),
        ("atlas", "[atlas]:2222", False),
        ("|1|bad", "atlas", False),
    ],
)
def test_names_match_as_ssh_matches_them(patterns: str, name: str, found: bool) -> None:
    assert matches(patterns, name) is found


def test_fingerprint_is_the_one_ssh_keygen_shows(tmp_path: Path, key: HostKey) -> None:
    shown = subprocess.run(
        ["ssh-keygen", "-lf", tmp_path / "k.pub"], capture_output=True, text=True, check=True
    )
    assert key.fingerprint == shown.stdout.split()[1]


def test_recorded_key_is_found_by_us_and_by_ssh_keygen(tmp_path: Path, key: HostKey) -> None:
    file = tmp_path / "new" / "known_hosts"
    record(file, "atlas", 22, key)
    record(file, "atlas", 2222, key)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [entry.key for entry in lookup([file], "atlas", 2222)] == [key]
    found = subprocess.run(
        ["ssh-keygen", "-F", "[atlas]:2222", "-f", file], capture_output=True, text=True, check=True
    )
    assert key.blob in found.stdout


def test_hashed_names_are_found(tmp_path: Path, key: HostKey) -> None:
    file = tmp_path / "known_hosts"
    record(file, "atlas", 2222, key)
    record(file, "bench", 22, key)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], capture_output=True, check=True)
    assert "atlas" not in file.read_text()
    assert len(lookup([file], "atlas", 2222)) == 1
    assert not lookup([file], "atlas", 22)


def test_recording_behind_a_file_without_line_break_keeps_both_lines(tmp_path: Path, key: HostKey) -> None:
    file = tmp_path / "known_hosts"
    file.write_text("other ssh-ed25519 AAAA")
    record(file, "atlas", 22, key)
    assert len(file.read_text().splitlines()) == 2


def test_markers_comments_and_rubbish() -> None:
    text = (
        "# atlas ssh-ed25519 AAAA\n\n@revoked atlas ssh-ed25519 AAAA\n@cert-authority * ssh-rsa BBBB\natlas\n"
    )
    (entry,) = parse(text, "atlas", Path("known_hosts"))
    assert entry.revoked
    assert entry.line == 3


def test_missing_files_hold_nothing(tmp_path: Path) -> None:
    assert lookup([tmp_path / "none", tmp_path / "none" / "x"], "atlas", 22) == []
