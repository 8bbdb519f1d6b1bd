"""What the kinds `worker` and `server` share: a service of ours that runs a binary of a build."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from hetctl.resources.activity import runs
from hetctl.resources.base import Desired, Observed, Reason
from hetctl.resources.obstacles import describe_owner
from hetctl.resources.unit import file_drift, unit_drift
from hetctl.resources.watch import is_of_watch, watch_objects
from hetctl.transport.base import Json


def process_objects(
    spec: Mapping[str, Json], made: Mapping[str, Mapping[str, Json]]
) -> list[Mapping[str, Json]]:
    """Return the objects of a service for the agent's `observe`.

    Arguments:
        spec: Of the resource: `unit`, `unit_path`, `port` and, where there are any, `support_files`,
            `secret_files` and `watch`.
        made: File states by path as the agent reported them when it wrote them; empty before.
    """
    paths = [
        spec["unit_path"],
        *spec.get("support_files", []),
        *sorted(spec.get("secret_files", {}).values()),
    ]
    return [
        *[_file(spec, path, made.get(path)) for path in paths],
        {"type": "unit", "name": spec["unit"]},
        {"type": "listener", "port": spec["port"]},
        *watch_objects(spec, made),
    ]


def _file(spec: Mapping[str, Json], path: str, made: Mapping[str, Json] | None) -> Mapping[str, Json]:
    """Return a file to look at; of a unit that was not made yet also what it says of who wrote it."""
    told = {"first_line": True} if path == spec["unit_path"] and made is None else {}
    return {"type": "file", "path": path, "expect": dict(made or {}), **told}


def process_drift(observed: Observed) -> list[Reason]:
    """Return how a service differs from what was applied, its watch aside."""
    if observed.mark is None or observed.unknown:
        return []
    spec = observed.mark.spec
    reasons: list[Reason] = []
    running = meant = runs(spec)
    for item, state in zip(observed.mark.objects, observed.states, strict=False):
        if is_of_watch(spec, item):
            continue
        match item["type"]:
            case "file":
                reasons += file_drift(item["path"], state, item.get("expect") or {})
            case "unit":
                found = unit_drift(
                    item["name"],
                    state,
                    executable=spec["executable"] if meant else "",
                    enabled="enabled" if meant else "disabled",
                    runs=meant,
                )
                running = meant and not found
                reasons += found
            case "listener":
                reasons += [] if not running else _listening(spec, state)
    return reasons


def _listening(spec: Mapping[str, Json], state: Mapping[str, Json]) -> list[Reason]:
    owners = state.get("owners") or []
    if not owners:
        return [Reason(f"nothing listens on port {spec['port']}", drift=True)]
    strangers = [owner for owner in owners if owner.get("unit") != spec["unit"]]
    if strangers and len(strangers) == len(owners):
        return [Reason(f"port {spec['port']} belongs to {describe_owner(strangers[0])}", drift=True)]
    return []


def fingerprint(salt: str, value: str) -> str:
    """Return what a mark stores of a secret: an HMAC with the node's own key.

    Arguments:
        salt: The node's key in hex.
        value: The secret.
    """
    return hmac.new(bytes.fromhex(salt), value.encode(), hashlib.sha256).hexdigest()


def secret_drift(desired: Desired, observed: Observed) -> list[Reason]:
    """Return which secrets differ from those applied; the node's key comes as a state of its own."""
    if observed.mark is None or observed.unknown:
        return []
    salt = next((str(state["salt"]) for state in observed.states if "salt" in state), "")
    known = observed.mark.facts.get("secrets") or {}
    return [
        Reason(f"secret {name} changed", desired.explain.get(name) or desired.position)
        for name, value in sorted(desired.secrets.items())
        if not salt or known.get(name) != fingerprint(salt, value)
    ]
