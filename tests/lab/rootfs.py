"""A minimal root file system for the hosts without any download, from packages installed on this machine.

Only ever used as the read-only lower layer of an overlay: outside /etc and /var its files are hard links to
the machine's own.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tests.lab.cache import cache_directory
from tests.lab.process import LabError, run

PACKAGES = tuple(
    """
    systemd-sysv dbus libpam-systemd openssh-server sudo nftables iproute2 iputils-ping procps
    ca-certificates curl libgomp1 python3
    """.split()
)
"""What a host has on top of the essential packages: a plain server, no compiler."""

_STATUS = Path("/var/lib/dpkg/status")
_COPIED = ("etc", "var")
_MADE_BY_MAINTAINER_SCRIPTS = tuple(
    """
    etc/passwd etc/group etc/nsswitch.conf etc/pam.d etc/alternatives etc/ld.so.cache etc/ssl/certs
    etc/ca-certificates.conf etc/localtime etc/timezone etc/profile etc/environment etc/shells etc/security
    usr/share/ca-certificates var/lib/dpkg/alternatives
    """.split()
)
_EMPTY_DIRECTORIES = tuple(
    """
    proc sys dev run tmp root home mnt media srv opt usr/local/bin var/tmp var/log var/lib/dpkg/info
    var/lib/dpkg/updates
    """.split()
)
_UNUSED_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Package:
    """What dpkg's status file says of an installed package."""

    name: str
    base: bool
    """Essential or of priority `required`: part of every Debian."""
    provides: tuple[str, ...]
    depends: tuple[tuple[str, ...], ...]
    """Each entry lists alternatives."""
    stanza: str


def root_file_system(extra_packages: tuple[str, ...] = ()) -> Path:
    """Return the root file system for the present state of this machine's packages, made when it is missing.

    Arguments:
        extra_packages: Installed packages that hosts have besides `PACKAGES`.
    """
    names = (*PACKAGES, *extra_packages)
    key = hashlib.sha256(
        repr(names).encode() + Path(__file__).read_bytes() + _STATUS.read_bytes()
    ).hexdigest()[:16]
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "rootfs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = cache / f"rootfs-{key}"
        if not target.exists():
            building = cache / f"building-rootfs-{key}"
            shutil.rmtree(building, ignore_errors=True)
            _build(building, names)
            building.rename(target)
        (cache / f"rootfs-{key}.used").touch()
        for stamp in cache.glob("rootfs-*.used"):
            if stamp.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                shutil.rmtree(stamp.with_suffix(""))
                stamp.unlink()
    return target


def installed_packages() -> dict[str, Package]:
    """Read dpkg's status file."""
    found = {}
    for stanza in _STATUS.read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", stanza, re.MULTILINE))
        if fields.get("Status", "").endswith(" ok installed"):
            name = fields["Package"]
            depends = ", ".join(fields[key] for key in ("Pre-Depends", "Depends") if key in fields)
            found[name] = Package(
                name=name,
                base=fields.get("Essential") == "yes" or fields.get("Priority") == "required",
                provides=tuple(_package_names(fields.get("Provides", ""), ",")),
                depends=tuple(
                    tuple(_package_names(entry, "|")) for entry in depends.split(",") if entry.strip()
                ),
                stanza=stanza.strip("\n"),
            )
    return found


def closure(names: tuple[str, ...], installed: dict[str, Package]) -> list[str]:
    """Return `names` and all they depend on, sorted; of alternatives, the first one that is installed.

    Raises:
        LabError: One of `names` is not installed.
    """
    if absent := sorted(set(names) - set(installed)):
        raise LabError(f"not installed on this machine: {', '.join(absent)}; run tests/lab/setup.sh")
    providers: dict[str, str] = {}
    for package in sorted(installed.values(), key=lambda package: package.name):
        for provided in package.provides:
            providers.setdefault(provided, package.name)
    wanted = list(names)
    reached: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in reached:
            continue
        reached.add(name)
        for alternatives in installed[name].depends:
            choices = [choice if choice in installed else providers.get(choice) for choice in alternatives]
            wanted += [choice for choice in choices if choice][:1]
    return sorted(reached)


def _package_names(text: str, separator: str) -> list[str]:
    return [
        match[0]
        for part in text.split(separator)
        if (match := re.match(r"[a-z0-9][a-z0-9+.-]*", part.strip()))
    ]


def _build(root: Path, names: tuple[str, ...]) -> None:
    installed = installed_packages()
    base = tuple(package.name for package in installed.values() if package.base)
    packages = closure((*base, *names), installed)
    for directory in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):  # as on a merged-/usr system
        if Path("/", directory).is_symlink():
            (root / "usr" / directory).mkdir(parents=True, exist_ok=True)
            (root / directory).symlink_to(f"usr/{directory}")
    for path in sorted(
        {line for line in run("dpkg-query", "--listfiles", *packages).splitlines() if line[:1] == "/"}
    ):
        _take(Path(path), root)
    for name in _MADE_BY_MAINTAINER_SCRIPTS:
        _take_tree(Path("/", name), root)
    for name in _EMPTY_DIRECTORIES:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, mode in (("tmp", 0o1777), ("var/tmp", 0o1777), ("root", 0o700)):
        (root / name).chmod(mode)
    for name, target in (("var/run", "/run"), ("var/lock", "/run/lock")):
        with contextlib.suppress(FileExistsError):
            (root / name).symlink_to(target)
    _write_accounts(root)
    _write_package_database(root, packages, installed)
    _link_alternatives(root)
    for identity in (*(root / "etc/ssh").glob("ssh_host_*"), root / "etc/machine-id", root / "etc/hostname"):
        identity.unlink(missing_ok=True)


def _take(source: Path, root: Path) -> None:
    """Bring one file or directory (without its content) of the machine to the same place under `root`."""
    if not os.path.lexists(source):
        return  # documentation that a container image left out, a configuration file somebody removed
    target = root / source.relative_to("/")
    if source.is_dir() and not source.is_symlink():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copystat(source, target)
        status = source.stat()
        os.chown(target, status.st_uid, status.st_gid)
        return
    if os.path.lexists(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.relative_to("/").parts[0] in _COPIED:
        _copy(source, target)
    else:
        try:
            os.link(source, target)
        except OSError:  # the cache lies on another file system
            _copy(source, target)
        _take_bytecode(source, root)


def _take_bytecode(source: Path, root: Path) -> None:
    """Take Python's compiled files along, which no package lists, or every host would compile them anew."""
    if source.suffix == ".py":
        for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
            _take(compiled.parent, root)
            _take(compiled, root)


def _take_tree(source: Path, root: Path) -> None:
    _take(source, root)
    if source.is_dir() and not source.is_symlink():
        for path in sorted(source.rglob("*")):
            _take(path, root)


def _copy(source: Path, target: Path) -> None:
    shutil.copy2(source, target)
    status = source.stat()
    os.chown(target, status.st_uid, status.st_gid)


def _write_accounts(root: Path) -> None:
    """Lock every account: the machine's password hashes are nobody's business in a test."""
    for source, target, rest in (("passwd", "shadow", "19000:0:99999:7:::"), ("group", "gshadow", ":")):
        names = [line.split(":")[0] for line in (root / "etc" / source).read_text().splitlines() if line]
        path = root / "etc" / target
        path.write_text("".join(f"{name}:*:{rest}\n" for name in names))
        path.chmod(0o640)


def _write_package_database(root: Path, packages: list[str], installed: dict[str, Package]) -> None:
    database = root / "var/lib/dpkg"
    (database / "status").write_text("\n\n".join(installed[name].stanza for name in packages) + "\n")
    (database / "available").write_text("")
    wanted = set(packages)
    for path in Path("/var/lib/dpkg/info").iterdir():
        if path.name == "format" or path.stem.split(":")[0] in wanted:
            _take(path, root)


def _link_alternatives(root: Path) -> None:
    """Repeat the links of update-alternatives, which no package lists, where their programs are here."""
    for record in (root / "var/lib/dpkg/alternatives").iterdir():
        link = Path("/", record.read_text().splitlines()[1])
        choice = root / "etc/alternatives" / record.name
        if not choice.is_symlink():
            continue
        if os.path.lexists(root / choice.readlink().relative_to("/")):
            _take(link, root)
        else:
            choice.unlink()
