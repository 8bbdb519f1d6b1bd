"""What the manifest can already say but this version cannot do yet (E9xx): one table.

A row is removed when its feature arrives; nothing else has to change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from hetctl.manifest.problem_list import ProblemList
from hetctl.manifest.source import KeyPath

ANY: Final = "*"
"""In a pattern: every key of a mapping, every item of a list."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """One thing that parses but does not work yet.

    Arguments:
        code: Code of the problem.
        pattern: Keys that lead to it; ANY for names and list items.
        what: Subject of "... not available yet".
        instead: What to do now.
        when: For which values it holds.
    """

    code: str
    pattern: tuple[str, ...]
    what: str
    instead: str
    when: Callable[[Any], bool] = lambda _: True


def _is(*values: Any) -> Callable[[Any], bool]:
    return lambda value: value in values


def _remote(value: Any) -> bool:
    return isinstance(value, str) and re.match(r"[a-z][a-z0-9+.-]+:", value) is not None


def _several(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1


_PLACEMENT: Final = ("placements", ANY)
_UNPACK = "use a source archive: `source: {archive: llama.cpp.tar.gz}`"
_REMOVE = "remove it"

RESERVED: Final = (
    Reserved("E901", ("vms", ANY), "virtual machines are", "set it up by hand and declare it as a node"),
    Reserved(
        "E902",
        ("nodes", ANY, "gpus", ANY, "use"),
        "passing cards through is",
        "pass it through by hand, and declare it with the machine that has it",
        _is("passthrough"),
    ),
    Reserved("E903", ("builds", ANY, "source"), "alternative sources are", "keep one source", _several),
    *(
        Reserved("E904", ("builds", ANY, "source", *star, kind), f"sources of the kind {kind!r} are", _UNPACK)
        for kind in ("git", "pypi", "release", "url", "path")
        for star in ((), (ANY,))
    ),
    Reserved("E905", ("builds", ANY, "perNode"), "builds that differ by node are", "declare one build each"),
    Reserved("E906", ("builds", ANY, "ui"), "building the web interface in is", _REMOVE),
    Reserved(
        "E907",
        ("models", ANY, "source"),
        "model sources other than local files are",
        "download it and name the file",
        _remote,
    ),
    Reserved(
        "E907",
        ("models", ANY, "source"),
        "models in several files are",
        "merge them with llama-gguf-split --merge",
        _several,
    ),
    Reserved("E908", ("nodes", ANY, "power"), "power budgets are", _REMOVE),
    Reserved("E908", ("nodes", ANY, "gpuDefaults"), "power limits are", "set them with nvidia-smi -pl"),
    Reserved(
        "E908", ("nodes", ANY, "gpus", ANY, "powerLimit"), "power limits are", "set them with nvidia-smi -pl"
    ),
    Reserved("E909", ("nodes", ANY, "driver"), "installing drivers is", "install it by hand"),
    Reserved(
        "E910", ("nodes", ANY, "managed"), "unmanaged workers are", _REMOVE, lambda value: value is False
    ),
    Reserved("E910", ("nodes", ANY, "endpoint"), "unmanaged workers are", _REMOVE),
    Reserved("E911", ("nodes", ANY, "presence"), "nodes that come and go are", _REMOVE, _is("intermittent")),
    Reserved("E912", ("nodes", ANY, "kernelArgs"), "kernel arguments are", "set them by hand"),
    Reserved("E913", ("gateways", ANY), "gateways are", _REMOVE),
    Reserved("E914", ("mirrors",), "mirrors are", "download by hand and name the files"),
    Reserved("E915", ("downloads", "from"), "downloads by nodes are", _REMOVE, _is("node")),
    Reserved("E915", ("downloads", "proxy"), "downloads are", "download by hand and name the files"),
    Reserved(
        "E916",
        ("offline",),
        "the offline check is",
        "remove it: nothing is downloaded anyway",
        lambda value: value is True,
    ),
    Reserved("E917", ("findings",), "accepting findings is", _REMOVE),
    Reserved("E918", (*_PLACEMENT, "speculative"), "speculative decoding is", _REMOVE),
    Reserved("E919", (*_PLACEMENT, "lora"), "adapters are", _REMOVE),
    Reserved("E920", (*_PLACEMENT, "mmproj"), "projector files are", _REMOVE),
    Reserved("E921", (*_PLACEMENT, "overrides"), "tensor overrides are", "use nCpuMoe, or remove it"),
    Reserved(
        "E925",
        (*_PLACEMENT, "splitMode"),
        "split modes row and tensor are",
        "use layer",
        _is("row", "tensor"),
    ),
    Reserved("E926", (*_PLACEMENT, "shares"), "shares are", "use layers"),
    Reserved("E927", (*_PLACEMENT, "rpc", "cache"), "the workers' tensor cache is", _REMOVE),
    Reserved(
        "E928", (*_PLACEMENT, "rpc", "exposure"), "tunnelled workers are", "use firewall", _is("loopback")
    ),
    Reserved("E929", (*_PLACEMENT, "rpc", "transport"), "RDMA is", "use tcp", _is("rdma")),
    Reserved(
        "E930", (*_PLACEMENT, "rpc", "workers"), "one worker per card is", "use per-node", _is("per-device")
    ),
    Reserved(
        "E931",
        (*_PLACEMENT, "nCpuMoe"),
        "choosing nCpuMoe by device is",
        "give one number",
        lambda value: value == "auto" or isinstance(value, dict),
    ),
    Reserved("E933", (*_PLACEMENT, "server", "tls"), "HTTPS is", "put a reverse proxy in front"),
    Reserved(
        "E934", (*_PLACEMENT, "args", ANY, "upload"), "sending files along is", "copy it and give its path"
    ),
    Reserved(
        "E934", (*_PLACEMENT, "chatTemplate", "upload"), "sending files along is", "name a built-in template"
    ),
    *(
        Reserved(
            "E935",
            (*where, "user"),
            "logging in as another user than root is",
            "allow root by key",
            lambda value: value != "root",
        )
        for where in (("ssh",), ("nodes", ANY, "ssh"), ("vms", ANY, "ssh"))
    ),
)
"""Every such thing."""

AUTO_DEVICES: Final = "E936"
"""Code for `devices: auto` where it would need the fit; found when references are resolved."""


def check_availability(data: Any, problems: ProblemList) -> None:
    """Add a problem for everything in `data` (plain, without x- keys) that this version cannot do."""
    for row in RESERVED:
        for path, value in _matches(data, row.pattern):
            if value is not None and row.when(value):
                problems.add(row.code, f"{row.what} not available yet", path, hint=row.instead, key=True)


def _matches(data: Any, pattern: tuple[str, ...], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    if not pattern:
        yield path, data
        return
    step, rest = pattern[0], pattern[1:]
    if isinstance(data, dict):
        for name in data if step == ANY else [step]:
            if name in data:
                yield from _matches(data[name], rest, (*path, name))
    elif isinstance(data, list) and step == ANY:
        for index, item in enumerate(data):
            yield from _matches(item, rest, (*path, index))
