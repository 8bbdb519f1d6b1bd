"""Model files on the operator's machine: a header is read once in a run, and at all once for each content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from hetctl.catalog import formats, table
from hetctl.fit import cursor, gguf
from hetctl.fit import model as described
from hetctl.fit.gguf import Tensor
from hetctl.fit.model import Model, read_model
from hetctl.transport.workstation import Workstation

KIND = "models"
"""Where the workstation remembers what headers say."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Describes model files.

    Arguments:
        workstation: Remembers what was read. Without its cache the answers are the same and take longer: a
            vocabulary of a quarter of a million words is passed in a tenth of a second.
    """

    workstation: Workstation
    _read: dict[Path, Model] = field(default_factory=dict)

    def describe(self, path: Path) -> Model:
        """Return what the header of a model file says.

        Raises:
            ModelUnreadable: It is no model file, or damaged.
            OSError: It cannot be read.
        """
        if path not in self._read:
            self._read[path] = self._remembered(path)
        return self._read[path]

    def _remembered(self, path: Path) -> Model:
        content = self.workstation.known_digest(path)
        if content is None:
            return read_model(path)
        known = self.workstation.recall(KIND, content)
        with suppress(KeyError, TypeError, ValueError):  # not what this version writes: read anew
            if known["reader"] == reader_digest():
                return replace(model_from_json(known["model"]), name=str(path))
        model = read_model(path)
        self.workstation.remember(KIND, content, {"reader": reader_digest(), "model": model_to_json(model)})
        return model


@cache
def reader_digest() -> str:
    """Return the digest of everything that decides what is read from a header.

    It stands beside what is remembered, so that a corrected reader never meets what the old one read.
    """
    sources = [Path(module.__file__ or "") for module in (cursor, gguf, described, formats)]
    found = hashlib.sha256()
    for source in (*sources, table.DATA / "ggml_types.json"):
        found.update(source.read_bytes())
    return found.hexdigest()


def model_to_json(model: Model) -> dict[str, Any]:
    """Return a model as JSON can hold it."""
    values = {each.name: getattr(model, each.name) for each in fields(Model)}
    tensors = [
        [tensor.name, tensor.shape, tensor.format.id, tensor.offset, tensor.bytes] for tensor in model.tensors
    ]
    return {**values, "tensors": tensors}


def model_from_json(value: Mapping[str, Any]) -> Model:
    """Return the model that `model_to_json` wrote.

    Raises:
        KeyError, TypeError, ValueError: It wrote something else.
    """
    known = formats.number_formats()
    tensors = tuple(
        Tensor(name, tuple(shape), known[kind], offset, size)
        for name, shape, kind, offset, size in value["tensors"]
    )
    values: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in value.items()
    }
    return Model(**(values | {"tensors": tensors}))
