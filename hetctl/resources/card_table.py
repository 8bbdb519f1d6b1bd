"""What each device of a placement holds, and what stays free: the card table of a plan. Pure.

Everything follows from the specs of servers, wanted and remembered. Room for computing is not counted: it is
not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetctl.fit.memory import Cache, Share, experts_on_cpu, predict
from hetctl.fit.model import Model
from hetctl.fit.placement import place, split_arguments
from hetctl.manifest.references import HEAD_CPU, Resolved
from hetctl.manifest.resolved import gpus_of
from hetctl.resources.arrangement import ModelShape
from hetctl.resources.base import Action, Change, Desired
from hetctl.resources.provider import DeviceRow, Survey
from hetctl.resources.topology import worker_address
from hetctl.transport.base import Json

MAPPED = frozenset({"auto", "mmap"})
"""Load modes that leave the head's weights in the page cache, which the kernel counts as available."""

_EXECUTED = frozenset({Action.CREATE, Action.UPDATE, Action.RESTART})

_UNKNOWN = Share(layers=0, output=False, weights=0, kv=None)

Memory = tuple[str, str]
"""Node and card; an empty card is the node's own memory, which all its processors share."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one device holds of one placement.

    Arguments:
        device: `node/card` as the manifest names it; `<head>/cpu` for the head's own processor.
        memory: The memory that it lies in.
        layers: Such as `31`, `5+out` or `4+in`.
        share: What was predicted.
        mapped: The weights are mapped from the model file.
    """

    device: str
    memory: Memory
    layers: str
    share: Share
    mapped: bool = False

    @property
    def taken(self) -> int | None:
        """Bytes it takes; None when that is not known."""
        return None if self.share.kv is None else self.share.weights + self.share.kv

    @property
    def given_back(self) -> int | None:
        """Bytes that become available when it stops; None when that is not known."""
        return self.share.kv if self.mapped else self.taken


def card_rows(
    head: Change, shapes: Mapping[str, ModelShape], free: Mapping[Memory, int | None]
) -> tuple[DeviceRow, ...]:
    """Return the card table of one placement.

    Arguments:
        head: The change of its server.
        shapes: What is known of each model.
        free: What stays free of each memory, as `free_memory` returns it.
    """
    if head.desired is None:
        return ()
    return tuple(
        DeviceRow(
            device=holding.device,
            layers=holding.layers,
            weights=holding.share.weights,
            kv=holding.share.kv,
            compute=holding.share.compute,
            free_after=free.get(holding.memory),
        )
        for holding in _wanted(head.desired, shapes)
    )


def free_memory(
    heads: Sequence[Change], survey: Survey, resolved: Resolved, shapes: Mapping[str, ModelShape]
) -> dict[Memory, int | None]:
    """Return the bytes that stay free of every memory that changes; None where that is not known.

    A card is declared with all it has, so that all placements on it count. What a node has available is less
    already by what runs there now, so that there only the difference counts.

    Arguments:
        heads: The changes of the servers of all placements.
        survey: What the nodes said.
        resolved: The manifest.
        shapes: What is known of each model.
    """
    wanted = {
        head.address: _wanted(head.desired, shapes)
        for head in heads
        if head.desired is not None and head.action in _EXECUTED
    }
    free: dict[Memory, int | None] = {}
    for holding in (each for found in wanted.values() for each in found):
        free.setdefault(holding.memory, _whole(holding.memory, survey, resolved))
    cards = {f"{node}/{card}" for node, card in free if card}
    for head in heads:
        if head.desired is None:
            continue
        if head.address in wanted:
            _add(free, _held_now(head, survey, shapes), 1)
            _add(free, wanted[head.address], -1)
        elif not cards.isdisjoint(head.desired.spec["settings"]["devices"]):
            _add(free, [each for each in _wanted(head.desired, shapes) if each.memory[1]], -1)
    return free


def _whole(memory: Memory, survey: Survey, resolved: Resolved) -> int | None:
    """Return the bytes of a card, or those a node has available now; None when nobody said."""
    node, card = memory
    if card:
        return gpus_of(resolved.cluster, node)[card].memory
    reading = survey.readings.get(node)
    return (reading.facts.memory_available or None) if reading is not None else None


def _add(free: dict[Memory, int | None], found: Sequence[Holding], sign: int) -> None:
    """Add what is given back, or with a negative sign what is taken, to memories that count."""
    for holding in found:
        size = holding.taken if sign < 0 else holding.given_back
        before = free.get(holding.memory)
        if before is not None:
            free[holding.memory] = None if size is None else before + sign * size


def _wanted(desired: Desired, shapes: Mapping[str, ModelShape]) -> list[Holding]:
    return holdings(desired.spec, desired.node, shapes[desired.spec["model"]].model)


def _held_now(head: Change, survey: Survey, shapes: Mapping[str, ModelShape]) -> list[Holding]:
    """Return what a server that will be stopped holds in the memory of nodes; nothing when it does not run.

    What another model took is not known.
    """
    mark, reading = head.mark, survey.readings.get(head.node)
    if mark is None or head.desired is None or reading is None:
        return []
    if not any(listener.unit == mark.spec["unit"] for listener in reading.facts.listeners):
        return []
    if mark.spec["model_sha256"] == head.desired.spec["model_sha256"]:
        held = holdings(mark.spec, mark.node, shapes[head.desired.spec["model"]].model)
    else:
        devices = [f"{mark.node}/{HEAD_CPU}", *mark.spec["settings"]["devices"]]
        held = [Holding(device, _memory(mark.spec, device), "", _UNKNOWN) for device in devices]
    return [holding for holding in held if not holding.memory[1]]


def holdings(spec: Mapping[str, Json], head: str, model: Model) -> list[Holding]:
    """Return what each device of a server holds, the head's own processor first.

    Arguments:
        spec: Of the server.
        head: Its node.
        model: The model it serves.

    Raises:
        ValueError: The layers in the spec are not those of the model.
    """
    settings = spec["settings"]
    layers: Mapping[str, int] = settings["layers"]
    devices = [device for device in settings["devices"] if device in layers]
    split = split_arguments(
        [layers[device] for device in devices], layers.get(HEAD_CPU, 0), model.block_count
    )
    predicted = predict(
        model,
        place(model.block_count, split.gpu_layers, split.tensor_split),
        len(devices),
        _cache(settings),
        experts_on_cpu(settings.get("nCpuMoe", 0)),
    )
    on_head = "all" if not devices else f"{predicted.host.layers}+in" if predicted.host.layers else "in"
    own = f"{head}/{HEAD_CPU}"
    mapped = settings["loadMode"] in MAPPED
    found = [Holding(own, _memory(spec, own), on_head, predicted.host, mapped=mapped)]
    for device, share in zip(devices, predicted.devices, strict=True):
        text = f"{share.layers}+out" if share.output else str(share.layers)
        found.append(Holding(device, _memory(spec, device), text, share))
    return found


def _memory(spec: Mapping[str, Json], device: str) -> Memory:
    """Return what memory a device of a server uses: a processor's is its node's, a card has its own."""
    node, _, name = device.partition("/")
    workers = {worker["address"] for worker in spec["workers"]}
    processor = name == HEAD_CPU or worker_address(spec["placement"], node, name) in workers
    return node, "" if processor else name


def _cache(settings: Mapping[str, Json]) -> Cache:
    return Cache(
        context=settings["context"],
        slots=settings["slots"],
        unified=settings["kvUnified"],
        type_k=settings["kvCache"]["k"],
        type_v=settings["kvCache"]["v"],
        batch=settings["batch"],
        ubatch=settings["ubatch"],
        flash_attention=settings["flashAttention"] == "on",
    )
