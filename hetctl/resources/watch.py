"""The watch of a server: a service beside it that ends it when it cannot work any more.

It belongs to the resource `server` and stops with it; mending it does not restart the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from hetctl.resources import layout
from hetctl.resources.activity import runs
from hetctl.resources.base import Observed, Reason
from hetctl.resources.unit import file_drift, render_companion, unit_drift
from hetctl.transport.base import Json

SHORTEST_STALL = 300
SLOWEST_PROMPT = 4
"""Tokens per second that a working placement reads at least: progress shows once per batch."""

LOADS = 2
"""How many times the time a model may take to load (`ready.within`) passes before it counts as stuck."""

RESTARTING = "^restarting "
"""Finds the lines of a watch's journal that say that and why it restarted the server."""

SLEEP_ARGUMENT = "--sleep-idle-seconds"
SLEEP_VARIABLE = "LLAMA_ARG_SLEEP_IDLE_SECONDS"
"""Have llama-server free its model when idle: its connections to workers then end by themselves."""


@dataclass(frozen=True, slots=True)
class WatchOrder:
    """What a watch follows from.

    Arguments:
        cluster: Name of the cluster.
        placement: Its name.
        server: Unit of the server.
        url: How the node itself reaches the server.
        model: API model id.
        task: chat, embedding or rerank.
        endpoints: `address:port` of each worker.
        key_file: Root-only file whose first line opens the API; empty for none.
        batch: Tokens the server reads at once.
        within: Seconds the model may take to load.
        may_sleep: The server frees its model when idle.
        python: Absolute path of the node's Python.
        script: Path of the watch's script.
        keep_alive: Path of the script that has the kernel probe connections.
    """

    cluster: str
    placement: str
    server: str
    url: str
    model: str
    task: str
    endpoints: Sequence[str]
    key_file: str
    batch: int
    within: int
    may_sleep: bool
    python: str
    script: str
    keep_alive: str


def may_sleep(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether a server was told to free its model when idle."""
    told = any(argument.partition("=")[0] == SLEEP_ARGUMENT for argument in arguments)
    return told or SLEEP_VARIABLE in environment


def watch_command(order: WatchOrder) -> list[str]:
    """Return the command line of a watch."""
    return [
        *[order.python, "-I", order.script, "--unit", order.server, "--url", order.url],
        *["--model", order.model, "--task", order.task],
        *(["--key-file", order.key_file] if order.key_file else []),
        *(["--keep-alive", order.keep_alive] if order.endpoints else []),
        *[part for endpoint in order.endpoints for part in ("--worker", endpoint)],
        *(["--may-sleep"] if order.may_sleep else []),
        *["--stall", str(max(SHORTEST_STALL, order.batch // SLOWEST_PROMPT))],
        *["--load", str(LOADS * order.within)],
    ]


def watch_spec(order: WatchOrder) -> dict[str, Json]:
    """Return what the spec of a server says about its watch."""
    unit = layout.unit_name(order.cluster, order.placement, "watch")
    return {
        "unit": unit,
        "unit_path": layout.unit_path(unit),
        "unit_text": render_companion(
            unit=unit,
            description=f"hetctl {order.cluster}: watch of placement {order.placement}",
            command=watch_command(order),
            of=order.server,
            addresses=["127.0.0.0/8", "::1", str(urlsplit(order.url).hostname)],
        ),
        "files": [order.script, *([order.keep_alive] if order.endpoints else [])],
    }


def watch_objects(
    spec: Mapping[str, Json], made: Mapping[str, Mapping[str, Json]]
) -> list[Mapping[str, Json]]:
    """Return the objects of a server's watch for the agent's `observe`; none for a process without one.

    Arguments:
        spec: Of the worker or server.
        made: File states by path as the agent reported them when it wrote them.
    """
    watch = spec.get("watch")
    if watch is None:
        return []
    paths = [watch["unit_path"], *watch["files"]]
    return [
        *[{"type": "file", "path": path, "expect": dict(made.get(path) or {})} for path in paths],
        {"type": "unit", "name": watch["unit"]},
    ]


def is_of_watch(spec: Mapping[str, Json], item: Mapping[str, Json]) -> bool:
    """Return whether an object of a worker or server belongs to its watch."""
    watch = spec.get("watch")
    if watch is None:
        return False
    return item.get("name") == watch["unit"] or item.get("path") in (watch["unit_path"], *watch["files"])


def watch_drift(observed: Observed) -> list[Reason]:
    """Return how a server's watch differs from what was applied."""
    if observed.mark is None or observed.unknown:
        return []
    reasons: list[Reason] = []
    for item, state in zip(observed.mark.objects, observed.states, strict=False):
        if not is_of_watch(observed.mark.spec, item):
            continue
        if item["type"] == "file":
            reasons += file_drift(item["path"], state, item.get("expect") or {})
        else:
            reasons += unit_drift(item["name"], state, enabled="static", runs=runs(observed.mark.spec))
    return reasons
