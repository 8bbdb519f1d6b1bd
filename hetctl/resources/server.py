"""Kind `server`: the llama-server process of a placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetctl.resources import marks
from hetctl.resources.activity import cost_of, word_of
from hetctl.resources.base import Change, Cost, Desired, Mark, Observed, Reason, changed_keys
from hetctl.resources.comparison import change_for, removal
from hetctl.resources.obstacles import unless_in_the_way
from hetctl.resources.process import process_drift, process_objects, secret_drift
from hetctl.resources.watch import watch_drift
from hetctl.transport.base import Json

RENDERED = (
    "build",
    "number",
    "commit",
    "unit_text",
    "executable",
    "arguments",
    "unit_path",
    "path",
    "model_path",
    "protocol",
    "workers",
    "endpoints",
    "buffers",
    "local_url",
    "secret_files",
    "support_files",
    "watch",
)

QUIET = frozenset({"ready", "watch"})
"""Keys of the spec that a running server does not depend on: its first question and its watch."""


class ServerKind:
    """A service that answers the OpenAI API with a model spread over its devices."""

    name = "server"

    def objects(self, desired: Desired) -> Sequence[Mapping[str, Json]]:
        """Return its files, unit and port."""
        return process_objects(desired.spec, {})

    def compare(self, desired: Desired, observed: Observed) -> Change:
        """Return what it takes to have this server answer as declared."""
        settings = desired.spec["settings"]
        total = settings["context"] * settings["slots"]
        drift = [*process_drift(observed), *secret_drift(desired, observed)]
        cost = Cost.NOTHING if _may_keep_running(desired, observed, drift) else Cost.MODEL_RELOAD
        change = change_for(
            desired,
            observed,
            drift=[*drift, *watch_drift(observed)],
            cost=cost_of(desired, observed.mark, cost),
            create_cost=cost_of(desired, None, Cost.MODEL_RELOAD),
            rendered=RENDERED,
            details=(f"-c {total} ({settings['slots']} slots x {settings['context']})",),
        )
        return unless_in_the_way(word_of(change), desired, observed)

    def remove(self, mark: Mark, observed: Observed) -> Change:
        """Return the removal of the service."""
        return removal(mark, observed, cost=Cost.SERVICE_RESTART)


def _may_keep_running(desired: Desired, observed: Observed, drift: Sequence[Reason]) -> bool:
    """Return True when nothing is new that the server itself depends on: nothing has to restart."""
    mark = observed.mark
    if mark is None or drift or not marks.is_finished(mark):
        return False
    return set(changed_keys(mark.spec, desired.spec)) <= QUIET
