"""Looking at objects of the node: one batch, one state for each object, in the same order.

What cannot be read is `{"unknown": why}`, never absent.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent.failures import Failure, bad_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetctl.agent.context import Context

State = dict[str, Any]


def _file(context: Context, item: State) -> State:
    from hetctl.agent.files import observe_file  # noqa: PLC0415 - each type loads its module when asked for

    return observe_file(context, item)


def _tree(context: Context, item: State) -> State:
    from hetctl.agent.trees import observe_tree  # noqa: PLC0415 - as above

    return observe_tree(context, item)


def _nft_table(context: Context, item: State) -> State:
    from hetctl.agent.nftables import observe_table  # noqa: PLC0415 - as above

    return observe_table(context, item)


def _listener(context: Context, item: State) -> State:
    from hetctl.agent.listeners import observe_listener  # noqa: PLC0415 - as above

    return observe_listener(context, item)


def _predecessor(context: Context, item: State) -> State:
    from hetctl.agent.predecessor import observe_predecessor  # noqa: PLC0415 - as above

    return observe_predecessor(context, item)


LOOKS: dict[str, Callable[[Context, State], State]] = {
    "file": _file,
    "tree": _tree,
    "nft_table": _nft_table,
    "listener": _listener,
    "predecessor": _predecessor,
}


def _guarded(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Failure as failure:
        if failure.kind == "bad-request":
            raise
        return {"unknown": f"{failure.what}: {failure.why}" if failure.why else failure.what}
    except OSError as error:
        return {"unknown": str(error)}


def _units(context: Context, names: list[str]) -> list[State]:
    from hetctl.agent.services import unit_states  # noqa: PLC0415 - as above

    found = _guarded(lambda: unit_states(context, names))
    return found if isinstance(found, list) else [found] * len(names)


def observe(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the state of each object asked for."""
    objects = arg.tables(arguments, "objects")
    unit_names = [arg.text(item, "name") for item in objects if item.get("type") == "unit"]
    units = iter(_units(context, unit_names) if unit_names else [])
    states = []
    for item in objects:
        kind = item.get("type")
        if kind == "unit":
            states.append(next(units))
        elif isinstance(kind, str) and kind in LOOKS:
            states.append(_guarded(partial(LOOKS[kind], context, item)))
        else:
            raise bad_request(f"not a type of object: {kind!r}")
    return {"states": states}
