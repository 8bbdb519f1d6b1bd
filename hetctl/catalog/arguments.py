"""Which arguments a user may add to a server's command line.

`args` of a placement is an escape hatch: what a manifest key stands for is said by that key, and what would
defeat the plan is refused (`data/llama_refused_arguments.json`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from hetctl.catalog.flags import Program, Setting, all_flags
from hetctl.catalog.table import Origin, origin_of, read_rows


@dataclass(frozen=True, slots=True)
class RefusedArgument:
    """Flags that cannot be given in `args`."""

    flags: tuple[str, ...]
    why: str
    fix: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Clash:
    """An argument that cannot stand in `args`.

    Arguments:
        argument: As the user wrote it.
        key: Manifest key that says the same, such as `placements.layers`; empty when none does.
        why: One phrase.
        fix: One phrase.
    """

    argument: str
    key: str
    why: str
    fix: str


@cache
def refused_arguments() -> tuple[RefusedArgument, ...]:
    """Return every row about arguments that are never taken."""
    return tuple(
        RefusedArgument(tuple(row["flags"]), row["why"], row["fix"], origin_of(row))
        for row in read_rows("llama_refused_arguments.json")
    )


def clash(argument: str, rendered: Collection[Setting] = ()) -> Clash | None:
    """Say what is wrong with giving `argument` to llama-server in `args`; None when nothing is.

    Spellings of every build count, not only those of the build in use: a flag that some build lacks would end
    the server at start.

    Arguments:
        argument: One element of `args`; values are passed through.
        rendered: Settings that the placement renders although the manifest has no key for them.
    """
    # llama.cpp takes underscores in long flags for hyphens (common/arg.cpp).
    spelling = argument.replace("_", "-") if argument.startswith("--") else argument
    for refused in refused_arguments():
        if spelling in refused.flags:
            return Clash(argument, "", refused.why, refused.fix)
    for program, flag in all_flags():
        if program is not Program.SERVER or spelling not in flag.spellings:
            continue
        if flag.key == "fixed" or (flag.key == "args" and flag.setting in rendered):
            return Clash(argument, "", "hetctl gives this flag itself", "leave it away")
        if flag.key != "args":
            key = flag.key.removeprefix("placements.")
            return Clash(argument, flag.key, f"{key} stands for it", f"use {key}")
    return None
