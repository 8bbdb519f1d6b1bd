"""Escape hatches: arguments, variables and CMake options that a key already stands for."""

from __future__ import annotations

from collections.abc import Mapping

from hetctl.manifest.draft import Draft
from hetctl.manifest.flags import (
    FLAG_KEYS,
    REFUSED_FLAGS,
    RENDERED_OPTIONS,
    VARIABLE_KEYS,
    VARIABLE_PREFIX,
)
from hetctl.manifest.source import KeyPath
from hetctl.manifest.wording import quoted


def check_arguments(draft: Draft) -> None:
    """Refuse whatever would say a second time, or against it, what a key says."""
    for name, placement in draft.cluster.placements.items():
        path = ("placements", name)
        for index, argument in enumerate(placement.args):
            if isinstance(argument, str):
                _check_argument(draft, argument, (*path, "args", index))
        _check_variables(draft, placement.env, (*path, "env"))
    for name, host in draft.hosts.items():
        section = "nodes" if name in draft.cluster.nodes else "vms"
        _check_variables(draft, host.env, (section, name, "env"))
    for name, build in draft.cluster.builds.items():
        for option in build.cmake:
            if option in RENDERED_OPTIONS:
                draft.problems.add(
                    "E226", f"the CMake option {option} is set by hetctl", ("builds", name, "cmake", option),
                    hint=RENDERED_OPTIONS[option], key=True,
                )  # fmt: skip


def _check_argument(draft: Draft, argument: str, path: KeyPath) -> None:
    flag = argument.partition("=")[0]
    if flag in FLAG_KEYS:
        draft.problems.add(
            "E223",
            f"the argument {flag} repeats the key `{FLAG_KEYS[flag]}`",
            path,
            hint=f"use `{FLAG_KEYS[flag]}`",
        )
    elif flag in REFUSED_FLAGS:
        draft.problems.add("E224", f"the argument {flag} {REFUSED_FLAGS[flag]}", path, hint="remove it")


def _check_variables(draft: Draft, env: Mapping[str, str], path: KeyPath) -> None:
    for variable in env:
        where = (*path, variable)
        if variable.startswith(VARIABLE_PREFIX):
            draft.problems.add(
                "E225", f"the variable {quoted(variable)} is an argument of llama-server in disguise", where,
                hint="use the key for it, or `args`", key=True,
            )  # fmt: skip
        elif variable in VARIABLE_KEYS:
            key = VARIABLE_KEYS[variable]
            draft.problems.add(
                "E225",
                f"the variable {variable} repeats the key `{key}`",
                where,
                hint=f"use `{key}`",
                key=True,
            )
