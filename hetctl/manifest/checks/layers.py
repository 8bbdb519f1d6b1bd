"""Devices of one placement and how its layers are divided over them."""

from __future__ import annotations

from typing import Final

from hetctl.manifest.draft import Draft
from hetctl.manifest.references import HEAD_CPU, DeviceKind, Resolved, ResolvedPlacement
from hetctl.manifest.source import KeyPath
from hetctl.manifest.wording import listed, quoted

DEVICE_LIMIT: Final = 16
"""Most devices, and most RPC endpoints, of one llama-server (GGML_SCHED_MAX_BACKENDS)."""


def check_layers(draft: Draft, resolved: Resolved) -> None:
    """Check the devices and layers of every placement whose devices are known."""
    for name, placement in resolved.placements.items():
        path = ("placements", name)
        _check_devices(draft, path, placement)
        _check_reach(draft, path, resolved, placement)
        _check_counts(draft, path, placement)
        _check_mode(draft, path, placement)


def _check_devices(draft: Draft, path: KeyPath, placement: ResolvedPlacement) -> None:
    seen: set[str] = set()
    for index, device in enumerate(placement.devices):
        where = (*path, "devices", index)
        if device.text in seen:
            draft.problems.add(
                "E210", f"the device {quoted(device.text)} is listed twice", where, hint="remove one"
            )
        seen.add(device.text)
        if device.kind is DeviceKind.HEAD_CPU and device.node != placement.head:
            draft.problems.add(
                "E214", f"{quoted(device.text)} is a head's own CPU, but the head is {placement.head}", where,
                hint=f"declare a CPU worker: `cpuWorkers` of node {quoted(device.node)}",
            )  # fmt: skip
        elif device.kind is DeviceKind.HEAD_CPU and len(placement.devices) > 1:
            draft.problems.add(
                "E214", f"{quoted(device.text)} means no offload at all, so it stands alone", where,
                hint="to keep some layers in the head's memory, use `layers: {…, cpu: n}`",
            )  # fmt: skip
    if len(placement.devices) > DEVICE_LIMIT:
        draft.problems.add(
            "E212", f"{len(placement.devices)} devices are more than llama.cpp can drive ({DEVICE_LIMIT})",
            (*path, "devices"), hint="use fewer",
        )  # fmt: skip


def _check_reach(draft: Draft, path: KeyPath, resolved: Resolved, placement: ResolvedPlacement) -> None:
    """Check that the processes of a placement can reach each other."""
    if len(placement.nodes) == 1:
        return
    for node in placement.nodes:
        address = resolved.nodes[node].rpc_address
        if address is not None and address.startswith("127."):
            draft.problems.add(
                "E222", f"node {quoted(node)} is known as {address}, where this placement's other machines"
                " cannot reach it", path, hint=f"give node {quoted(node)} an `rpcAddress`", key=True,
            )  # fmt: skip
    workers = [node for node, _ in placement.workers]
    crowded = next((node for node in workers if workers.count(node) > 1), None)
    if placement.placement.rpc.port is not None and crowded is not None:
        draft.problems.add(
            "E218", f"rpc.port is one port, but node {quoted(crowded)} runs {workers.count(crowded)} workers",
            (*path, "rpc", "port"), hint="leave the ports to hetctl",
        )  # fmt: skip


def _check_counts(draft: Draft, path: KeyPath, placement: ResolvedPlacement) -> None:
    layers = placement.placement.layers
    where = (*path, "layers")
    if layers == "auto":
        return
    texts = [device.text for device in placement.devices]
    if placement.devices[0].kind is DeviceKind.HEAD_CPU:
        draft.problems.add(
            "E215", "without offload there are no layers to divide", where, hint="remove it", key=True
        )
        return
    for name in layers:
        if name not in texts and name != HEAD_CPU:
            hint = draft.problems.guess(name, [*texts, HEAD_CPU]) or f"use {listed([*texts, HEAD_CPU])}"
            draft.problems.add(
                "E215", f"{quoted(name)} is no device of this placement", (*where, name), hint=hint, key=True
            )
    missing = [text for text in texts if text not in layers]
    if missing:
        draft.problems.add(
            "E215", f"layers says nothing about {listed(missing, word='and')}", where,
            hint="give every device a number, 0 included", key=True,
        )  # fmt: skip
    elif not sum(layers[text] for text in texts):
        draft.problems.add(
            "E215",
            "layers gives no device a layer",
            where,
            hint=f"use `devices: [{placement.head}/cpu]`",
            key=True,
        )


def _check_mode(draft: Draft, path: KeyPath, placement: ResolvedPlacement) -> None:
    declared = placement.placement
    several = len(placement.devices) > 1
    if declared.split_mode == "none" and several:
        draft.problems.add(
            "E216", "split mode none uses one device, and several are listed", (*path, "splitMode"),
            hint="list only the device that is used",
        )  # fmt: skip
    if declared.split_mode in {"row", "tensor"} and declared.layers != "auto":
        draft.problems.add(
            "E216", f"split mode {declared.split_mode} divides every layer, so there are no layers to count",
            (*path, "layers"), hint="use `shares`", key=True,
        )  # fmt: skip
    if declared.shares is not None and declared.split_mode in {"none", "layer"}:
        draft.problems.add(
            "E216", f"shares mean nothing in split mode {declared.split_mode}", (*path, "shares"),
            hint="use `layers`", key=True,
        )  # fmt: skip
    experts = declared.n_cpu_moe
    if isinstance(experts, int) and experts and several and declared.layers == "auto":
        draft.problems.add(
            "E216", "nCpuMoe empties the first layers, so with several devices it needs explicit layers",
            (*path, "nCpuMoe"), hint="give `layers` a number for each device",
        )  # fmt: skip
    if declared.main_gpu is not None and declared.main_gpu not in {
        device.text for device in placement.devices
    }:
        draft.problems.add(
            "E217", f"mainGpu {quoted(declared.main_gpu)} is no device of this placement", (*path, "mainGpu"),
            hint=f"use {listed(device.text for device in placement.devices)}",
        )  # fmt: skip
