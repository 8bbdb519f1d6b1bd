"""Do one thing for many nodes at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from hetctl.errors import HetctlError

CONNECTIONS = 32
"""At most this many nodes are spoken to at once; more than that crowd a bastion and gain nothing."""

Given = TypeVar("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Outcomes(Generic[Result]):
    """Results and errors by node, in the order the nodes were given."""

    results: Mapping[str, Result]
    errors: Mapping[str, HetctlError]


def for_each(
    given: Mapping[str, Given], do: Callable[[str, Given], Result], *, at_once: int = CONNECTIONS
) -> Outcomes[Result]:
    """Call `do(node, value)` for each node, each in a thread of its own.

    Threads are daemons and the wait is interruptible, so that Ctrl-C never hangs on a node that is silent.

    Arguments:
        given: A value for each node.
        do: What to do; a HetctlError it raises is that node's error, anything else is raised from here.
        at_once: The most threads that run at a time.
    """
    waiting = list(given.items())
    finished: queue.SimpleQueue[tuple[str, Result | None, BaseException | None]] = queue.SimpleQueue()

    def work(node: str, value: Given) -> None:
        try:
            result = do(node, value)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread, which raises it
            finished.put((node, None, error))
        else:
            finished.put((node, result, None))

    def start() -> None:
        node, value = waiting.pop(0)
        threading.Thread(target=work, args=(node, value), name=f"hetctl {node}", daemon=True).start()

    results: dict[str, Result] = {}
    errors: dict[str, HetctlError] = {}
    for _ in range(min(at_once, len(waiting))):
        start()
    for _ in given:
        node, result, error = finished.get()
        if waiting:
            start()
        if isinstance(error, HetctlError):
            errors[node] = error
        elif error is not None:
            raise error
        else:
            results[node] = result  # type: ignore[assignment] # None only when Result includes it
    return Outcomes(
        results={node: results[node] for node in given if node in results},
        errors={node: errors[node] for node in given if node in errors},
    )
