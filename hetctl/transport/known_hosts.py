"""Host keys as OpenSSH keeps them: known_hosts(5) files, read and appended to.

paramiko's own reader knows neither patterns nor markers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

DEFAULT_PORT = 22
HASHED = "|1|"


@dataclass(frozen=True, slots=True)
class HostKey:
    """A key that a host showed or that a file records.

    Arguments:
        type: Such as `ssh-ed25519`.
        blob: The public key in base64, as in known_hosts.
    """

    type: str
    blob: str

    def __str__(self) -> str:
        return f"{self.type} {self.fingerprint}"

    @property
    def fingerprint(self) -> str:
        """The form `ssh` and `ssh-keygen -l` show: `SHA256:` and the hash in base64 without padding."""
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A line of a known_hosts file that names the host in question."""

    key: HostKey
    file: Path
    line: int
    revoked: bool = False


def host_name(host: str, port: int) -> str:
    """Return the name under which known_hosts lists a host."""
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


def _matches_hashed(pattern: str, name: str) -> bool:
    """Compare with a hashed name: `|1|salt|HMAC-SHA1 of the name with the salt`, both in base64."""
    try:
        salt, digest = (base64.b64decode(part) for part in pattern[len(HASHED) :].split("|"))
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), "sha1").digest(), digest)


def matches(patterns: str, name: str) -> bool:
    """Tell whether the first field of a known_hosts line names `name`: `*` and `?` match, `!` excludes."""
    found = False
    for pattern in patterns.split(","):
        if pattern.startswith(HASHED):
            found = found or _matches_hashed(pattern, name)
        elif pattern.startswith("!"):
            if fnmatchcase(name.lower(), _as_glob(pattern[1:])):
                return False
        else:
            found = found or fnmatchcase(name.lower(), _as_glob(pattern))
    return found


def _as_glob(pattern: str) -> str:
    """Keep `[host]:port` from being read as a character class."""
    return pattern.lower().replace("[", "[[]")


def parse(text: str, name: str, file: Path) -> list[KnownKey]:
    """Return the keys that the text of a known_hosts file holds for `name`."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
        if len(fields) < 3 or fields[0].startswith("#") or marker not in ("", "@revoked"):  # noqa: PLR2004 - names, type, key
            continue
        if matches(fields[0], name):
            found.append(KnownKey(HostKey(fields[1], fields[2]), file, number, revoked=marker == "@revoked"))
    return found


def lookup(files: Iterable[Path], host: str, port: int) -> list[KnownKey]:
    """Return the keys that known_hosts files hold for a host; missing files hold none."""
    found: list[KnownKey] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            continue
        found += parse(text, host_name(host, port), file)
    return found


def record(file: Path, host: str, port: int, key: HostKey) -> None:
    """Append a key to a known_hosts file, which is made if it is missing."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = f"{host_name(host, port)} {key.type} {key.blob}\n"
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = "\n" + line
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
