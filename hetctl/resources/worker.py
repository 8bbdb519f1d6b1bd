"""Kind `worker`: a ggml RPC server that lends its devices to a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetctl.resources.activity import cost_of, word_of
from hetctl.resources.base import Change, Cost, Desired, Mark, Observed
from hetctl.resources.comparison import change_for, removal
from hetctl.resources.obstacles import unless_in_the_way
from hetctl.resources.process import process_drift, process_objects
from hetctl.transport.base import Json

RENDERED = ("build", "unit_text", "executable", "arguments", "unit_path", "path", "protocol", "support_files")


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
            cost=cost_of(desired, observed.mark, Cost.MODEL_RELOAD),
            create_cost=cost_of(desired, None, Cost.SERVICE_RESTART),
            rendered=RENDERED,
            details=(
                f"{desired.spec['listen']}:{desired.spec['port']}  {', '.join(desired.spec['devices'])}",
            ),
        )
        return unless_in_the_way(word_of(change), desired, observed)

    def remove(self, mark: Mark, observed: Observed) -> Change:
        """Return the removal of the service."""
        return removal(mark, observed, cost=Cost.SERVICE_RESTART)
