"""Kind `worker`: a ggml RPC server that lends its devices to a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hetctl.resources.base import Action, Change, Cost, Desired, Mark, Observed, Reason
from hetctl.resources.comparison import change_for, removal
from hetctl.resources.process import (
    describe_owner,
    foreign_listener,
    process_drift,
    process_objects,
    stop_command,
)
from hetctl.transport.base import Json

RENDERED = ("unit_text", "executable", "arguments", "unit_path", "path", "protocol")


class WorkerKind:
    """A service that listens for exactly one head."""

    name = "worker"

    def objects(self, desired: Desired) -> Sequence[Mapping[str, Json]]:
        """Return its unit file, unit and port."""
        return process_objects(desired.spec, {})

    def compare(self, desired: Desired, observed: Observed) -> Change:
        """Return what it takes to have this worker running as declared."""
        change = change_for(
            desired,
            observed,
            drift=process_drift(observed),
            cost=Cost.MODEL_RELOAD,
            create_cost=Cost.SERVICE_RESTART,
            rendered=RENDERED,
            details=(
                f"{desired.spec['listen']}:{desired.spec['port']}  {', '.join(desired.spec['devices'])}",
            ),
        )
        return blocked_by_stranger(change, desired, observed)

    def remove(self, mark: Mark, observed: Observed) -> Change:
        """Return the removal of the service."""
        return removal(mark, observed, cost=Cost.SERVICE_RESTART)


def blocked_by_stranger(change: Change, desired: Desired, observed: Observed) -> Change:
    """Return the change as BLOCKED when a process that is not ours holds the declared port."""
    owner = None if observed.unknown else foreign_listener(desired, observed)
    if owner is None:
        return change
    return replace(
        change,
        action=Action.BLOCKED,
        reasons=(
            Reason(f"port {desired.spec['port']} belongs to {describe_owner(owner)}", desired.position),
        ),
        fix=stop_command(owner),
    )
