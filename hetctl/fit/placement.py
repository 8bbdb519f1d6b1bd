"""Which layer goes to which device: llama.cpp's rule, and the arguments that make it do what was declared."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True)
class SplitArguments:
    """What `-ts` and `-ngl` must say.

    Arguments:
        tensor_split: A share for each device, in the order of `--device`; empty without devices.
        gpu_layers: Layers on devices, the output layer counted.
    """

    tensor_split: tuple[int, ...]
    gpu_layers: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where llama.cpp puts the layers of a model.

    Arguments:
        layers: For each repeating layer the index of its device; None for the head's CPU.
        output: The index of the device of the output layer; None for the head's CPU.
    """

    layers: tuple[int | None, ...]
    output: int | None


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one device brings, for `auto_layers`.

    Arguments:
        memory: Bytes of a GPU; None for a CPU worker.
        reserve: Bytes of it to leave free.
    """

    memory: int | None
    reserve: int = GIB


def split_arguments(layers: Sequence[int], cpu: int, block_count: int) -> SplitArguments:
    """Return the arguments that put layers where they are declared, in split mode layer.

    The output layer goes to the last device. llama.cpp counts it among the layers it distributes, so the last
    share is one more than its layers; without that most splits land one layer off.

    Arguments:
        layers: Repeating layers of each device, in the order of `--device`.
        cpu: Repeating layers that stay on the head's CPU: the first ones.
        block_count: Repeating layers of the model. Callers check the sum first, where they can point at the
            manifest.

    Raises:
        ValueError: A count is negative, or the counts do not add up.
    """
    if min((*layers, cpu)) < 0 or sum(layers) + cpu != block_count:
        raise ValueError(f"{list(layers)} and {cpu} on the CPU do not make {block_count} layers")
    if not layers:
        return SplitArguments((), 0)
    split = (*layers[:-1], layers[-1] + 1)
    return SplitArguments(split, sum(split))


def place(block_count: int, gpu_layers: int, shares: Sequence[float]) -> Layout:
    """Return where llama.cpp puts each layer: `load_tensors` of src/llama-model.cpp (b11434), in its float32.

    Arguments:
        block_count: Repeating layers of the model.
        gpu_layers: `-ngl`; negative for all.
        shares: `-ts`, one for each device, not all zero.
    """
    total = 0.0
    cumulated = []
    for share in shares:
        total = _float32(total + _float32(share))
        cumulated.append(total)
    bounds = [_float32(each / total) for each in cumulated]
    wanted = block_count + 1 if gpu_layers < 0 else gpu_layers
    start = max(block_count + 1 - wanted, 0)
    active = min(wanted, block_count + 1) if shares else 0

    def device(layer: int) -> int | None:
        if layer < start or layer - start >= active:
            return None
        part = _float32(_float32(layer - start) / active)
        return next(index for index, bound in enumerate(bounds) if bound > part)

    return Layout(tuple(device(layer) for layer in range(block_count)), device(block_count))


def auto_layers(capacities: Sequence[Capacity], block_count: int) -> tuple[int, ...]:
    """Return how many layers each device gets when the manifest does not say.

    GPUs get layers in proportion to their memory less the reserve, CPU workers as much as the smallest GPU
    (equal shares where there is none). What rounding leaves goes to the largest remainders, earlier devices
    first: the same devices always get the same layers.

    Arguments:
        capacities: The devices, in order; at least one.
        block_count: Repeating layers to distribute.
    """
    usable = [max(each.memory - each.reserve, 0) for each in capacities if each.memory is not None]
    smallest = min((each for each in usable if each), default=1)
    weights = [smallest if each.memory is None else max(each.memory - each.reserve, 0) for each in capacities]
    if not any(weights):
        weights = [1] * len(weights)
    total = sum(weights)
    layers = [block_count * weight // total for weight in weights]
    remainders = [block_count * weight % total for weight in weights]
    for index in sorted(range(len(weights)), key=lambda index: -remainders[index])[
        : block_count - sum(layers)
    ]:
        layers[index] += 1
    return tuple(layers)


def _float32(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
