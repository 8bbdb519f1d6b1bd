"""A placement by itself: keys that do not go together whatever the devices."""

from __future__ import annotations

import contextlib
import ipaddress

from hetctl.manifest.checks.hosts import check_address
from hetctl.manifest.draft import Draft
from hetctl.manifest.placements import Placement
from hetctl.manifest.source import KeyPath
from hetctl.manifest.wording import quoted

_UNQUANTISED = {"f32", "f16", "bf16"}


def check_tasks(draft: Draft) -> None:
    """Check every placement for keys that contradict each other."""
    for name, placement in draft.cluster.placements.items():
        path = ("placements", name)
        _check_task(draft, path, placement)
        _check_addresses(draft, path, placement)
        if placement.kv_cache.v not in _UNQUANTISED and placement.flash_attention == "off":
            draft.problems.add(
                "E231", f"a KV cache with values in {placement.kv_cache.v} needs flash attention",
                (*path, "kvCache", "v"), hint="use `flashAttention: on`, or f16",
            )  # fmt: skip
        if placement.ubatch > placement.batch:
            where = (*path, "ubatch") if "ubatch" in placement.model_fields_set else (*path, "batch")
            draft.problems.add(
                "E232", f"ubatch {placement.ubatch} is larger than batch {placement.batch}", where,
                hint="raise batch or lower ubatch",
            )  # fmt: skip


def _check_task(draft: Draft, path: KeyPath, placement: Placement) -> None:
    if placement.pooling is not None and placement.task == "chat":
        draft.problems.add(
            "E230",
            "pooling means nothing for the task chat",
            (*path, "pooling"),
            hint="set `task: embedding`, or remove it",
        )
    if placement.pooling == "none" and placement.task == "embedding":
        draft.problems.add(
            "E230", "pooling none gives a vector for each token, which the proof of readiness does not take",
            (*path, "pooling"), hint="use mean, cls or last",
        )  # fmt: skip
    if placement.task == "rerank" and placement.pooling not in (None, "rank"):
        draft.problems.add(
            "E230", "the task rerank needs pooling rank", (*path, "pooling"), hint="remove `pooling`"
        )
    if placement.ready.expect is not None and placement.task != "chat":
        draft.problems.add(
            "E230",
            f"the task {placement.task} gives no text to expect",
            (*path, "ready", "expect"),
            hint="remove it",
        )


def _check_addresses(draft: Draft, path: KeyPath, placement: Placement) -> None:
    seen: set[str] = set()
    for index, text in enumerate(placement.server.listen or ()):
        where = (*path, "server", "listen", index)
        if check_address(draft, text, where, "a listen address") and text in seen:
            draft.problems.add("E219", f"the address {text} is listed twice", where, hint="remove one")
        seen.add(text)
    for index, text in enumerate(placement.server.allow_from):
        where = (*path, "server", "allowFrom", index)
        try:
            ipaddress.ip_network(text)
        except ValueError:
            hint = "write a network such as 192.168.10.0/24, or an address"
            with contextlib.suppress(ValueError):  # no network at all, so there is nothing to guess
                hint = f"did you mean {quoted(str(ipaddress.ip_network(text, strict=False)))}?"
            draft.problems.add("E219", f"{quoted(text)} is not a network", where, hint=hint)
