"""Do counted layers add up to the model? Needs the model's file, so it comes after the manifest's checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hetctl.errors import ManifestInvalid, ModelUnreadable, Problem
from hetctl.fit.model import Model, read_model
from hetctl.manifest.problem_list import arranged
from hetctl.manifest.references import HEAD_CPU, Resolved, ResolvedPlacement
from hetctl.manifest.wording import named


def check_layer_counts(resolved: Resolved, describe: Callable[[Path], Model] = read_model) -> None:
    """Compare `layers` of every placement that counts them with its model.

    Arguments:
        resolved: The manifest with its references looked up.
        describe: Returns what the header of a model file says.

    Raises:
        ManifestInvalid: Some do not add up; carries one problem a placement. A file that is missing or cannot
            be read gives none: what is wrong with it is said where the model itself is needed.
    """
    problems = list(_problems(resolved, describe))
    if problems:
        raise ManifestInvalid(arranged(problems, resolved.cluster.source.digests))


def _problems(resolved: Resolved, describe: Callable[[Path], Model]) -> Iterator[Problem]:
    known: dict[Path, int | None] = {}
    for placement in resolved.placements.values():
        layers = placement.placement.layers
        if layers == "auto":
            continue
        path = resolved.models[placement.model]
        if path not in known:
            known[path] = _block_count(path, describe)
        wanted, counted = known[path], sum(layers.values())
        if wanted is not None and counted != wanted:
            yield resolved.cluster.source.problem(
                "E233",
                f"layers adds up to {counted}, and {named('model', placement.model)} has {wanted} layers",
                ("placements", placement.name, "layers"),
                hint=_hint(placement, layers, wanted - counted),
                key=True,
            )


def _block_count(path: Path, describe: Callable[[Path], Model]) -> int | None:
    """Return how many repeating layers a model has; None when its file does not say."""
    try:
        return describe(path).block_count if path.is_file() else None
    except (OSError, ModelUnreadable):
        return None


def _hint(placement: ResolvedPlacement, layers: Mapping[str, int], difference: int) -> str:
    """Return what to write: the last device takes the difference, or another one that can."""
    words = f"{abs(difference)} {'more' if difference > 0 else 'fewer'}"
    names = [device.text for device in reversed(placement.devices)]
    able = [name for name in (*names, HEAD_CPU) if name in layers and layers[name] + difference > 0]
    return f"{words}, for example `{able[0]}: {layers[able[0]] + difference}`" if able else words
