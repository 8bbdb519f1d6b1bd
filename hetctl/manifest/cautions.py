"""What is worth a warning in a valid manifest (Wxxx): nothing here stops anything."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path

from hetctl.errors import Problem
from hetctl.manifest.problem_list import arranged
from hetctl.manifest.references import HEAD_CPU, DeviceKind, Resolved, ResolvedPlacement
from hetctl.manifest.source import KeyPath
from hetctl.manifest.wording import named, quoted

GGUF = b"GGUF"
"""How every file of the format begins (ggml/include/gguf.h)."""

_LONGEST_PATH = 300
"""Characters of a path that are shown; a shortened one helps nobody."""


def cautions(resolved: Resolved) -> tuple[Problem, ...]:
    """Return warnings about a cluster, in file order.

    Looks at files of the operator's machine, whether they are there and how models begin, at nothing else.
    """
    found = [*_missing_files(resolved)]
    found += _other_formats(resolved)
    for placement in resolved.placements.values():
        found += _exposure(resolved, placement)
        found += _cards(resolved, placement)
    return arranged(found, resolved.cluster.source.digests)


def _missing_files(resolved: Resolved) -> Iterator[Problem]:
    files: list[tuple[KeyPath, Path]] = [
        (("models", name, "source"), path) for name, path in resolved.models.items()
    ]
    files += [(("builds", name, "source", "archive"), path) for name, path in resolved.archives.items()]
    source = resolved.cluster.source
    files += [
        (("placements", placement.name, "server", "apiKeys", owner, "file"), Path(secret.file))
        for placement in resolved.placements.values()
        for owner, secret in placement.api_keys.items()
        if secret.file is not None
    ]
    for where, file in files:
        if not _is_file(file):
            message = f"there is no file {quoted(str(file), longest=_LONGEST_PATH)} that can be read"
            yield source.problem("W301", message, where, hint="apply will need it")


def _other_formats(resolved: Resolved) -> Iterator[Problem]:
    for name, path in resolved.models.items():
        try:
            with path.open("rb") as file:
                begins = file.read(len(GGUF))
        except OSError:  # _missing_files says so
            continue
        if begins != GGUF:
            message = f"{quoted(path.name)} is not a GGUF file"
            yield resolved.cluster.source.problem(
                "W306", message, ("models", name, "source"), hint="no server can load it"
            )


def _cards(resolved: Resolved, placement: ResolvedPlacement) -> Iterator[Problem]:
    cards = [device for device in placement.devices if device.kind is DeviceKind.GPU]
    if not cards:
        return
    path: KeyPath = ("placements", placement.name)
    if placement.placement.devices != "auto":
        path = (*path, "devices", placement.placement.devices.index(cards[0].text))
    yield resolved.cluster.source.problem(
        "W305", f"no build can drive the card {quoted(cards[0].text)} yet", path,
        key=path[-1] == placement.name, hint="apply refuses it; use CPU workers for now",
    )  # fmt: skip


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a directory that may not be entered
        return False


def _exposure(resolved: Resolved, placement: ResolvedPlacement) -> Iterator[Problem]:
    source = resolved.cluster.source
    path = ("placements", placement.name)
    called = named("placement", placement.name)
    loopback = placement.listen and all(_loopback(address) for address in placement.listen)
    if not placement.api_keys and not loopback:
        yield source.problem(
            "W302", f"{called} answers everyone who can reach it", (*path, "server"), key=True,
            hint="give it `server.apiKeys`, or `listen: [127.0.0.1]`",
        )  # fmt: skip
    if placement.placement.rpc.exposure == "address" and placement.workers:
        yield source.problem(
            "W303", f"nothing but their address protects the workers of {called}", (*path, "rpc", "exposure"),
            hint="RPC has no authentication: use `exposure: firewall`, or a network of their own",
        )  # fmt: skip
    declared = placement.placement
    if declared.n_cpu_moe and declared.layers != "auto" and declared.layers.get(HEAD_CPU):
        yield source.problem(
            "W304", "nCpuMoe counts the first layers, and `cpu` in `layers` takes those away already",
            (*path, "nCpuMoe"), hint="use one of the two",
        )  # fmt: skip


def _loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback
