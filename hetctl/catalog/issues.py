"""Known faults of llama.cpp by build, and the settings that go round them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hetctl.catalog.flags import Setting
from hetctl.catalog.table import Builds, Origin, Row, builds_of, origin_of, read_rows


@dataclass(frozen=True, slots=True)
class Situation:
    """What a fault may depend on: one placement as it will be rendered.

    Arguments:
        rpc: A worker takes part.
        endpoints: How many workers.
        devices: How many devices, the head's own CPU not counted.
        split_mode: none, layer, row or tensor.
        kv_types: Formats of the KV cache.
        kv_pair: The formats of keys and values, joined by a hyphen: `q8_0-f16`.
        backends: cpu, cuda, hip, sycl or vulkan, of every device.
        worker_exposed: More than the head can connect to a worker.
        tensor_cache: Workers keep tensors on disk.
        prompt_cache: The server keeps prompts in host memory.
        speculative: A draft model, EAGLE or MTP is used.
        embedding: The server answers embeddings or ranks.
        largest_tensor: Bytes of the model's largest tensor; 0 when not known.
        environment: Names of variables the user sets.
    """

    rpc: bool = False
    endpoints: int = 0
    devices: int = 1
    split_mode: str = "layer"
    kv_types: frozenset[str] = frozenset({"f16"})
    kv_pair: str = "f16-f16"
    backends: frozenset[str] = frozenset({"cpu"})
    worker_exposed: bool = False
    tensor_cache: bool = False
    prompt_cache: bool = False
    speculative: bool = False
    embedding: bool = False
    largest_tensor: int = 0
    environment: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that must hold.

    Arguments:
        fact: Field of `Situation`.
        test: `is` (equal), `in` (one of), `none` (none of), `any` (a common element), `least` (at least).
        value: What it is compared with.
    """

    fact: str
    test: str
    value: Any

    def holds(self, situation: Situation) -> bool:
        """Say whether it holds in `situation`."""
        fact: Any = getattr(situation, self.fact)
        match self.test:
            case "is":
                return bool(fact == self.value)
            case "in":
                return fact in self.value
            case "none":
                return fact not in self.value
            case "any":
                return not fact.isdisjoint(self.value)
            case "least":
                return bool(fact >= self.value)
            case _:
                raise ValueError(f"no such test: {self.test}")


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """A fault of a range of builds.

    Arguments:
        id: Stable name.
        severity: error, warning or info.
        what: One sentence.
        when: All of these must hold; none: always.
        fix: What a user can do; empty when nothing.
        prevented: What hetctl does so that it cannot happen; empty when it may.
        builds: Builds that are known or must be feared to have it.
    """

    id: str
    severity: str
    what: str
    when: tuple[Condition, ...]
    fix: str
    prevented: str
    builds: Builds
    origin: Origin

    def applies(self, build: int, situation: Situation) -> bool:
        """Say whether `build` has this fault in `situation`."""
        return build in self.builds and all(condition.holds(situation) for condition in self.when)


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The value a setting gets where the manifest leaves it to hetctl.

    Arguments:
        setting: What is set.
        value: To what.
        when: All of these must hold.
        why: One phrase.
        issue: The `KnownIssue` it goes round; empty when it is a plain default.
    """

    setting: Setting
    value: int
    when: tuple[Condition, ...]
    why: str
    issue: str
    builds: Builds
    origin: Origin


@cache
def all_issues() -> tuple[KnownIssue, ...]:
    """Return every known issue."""
    return tuple(
        KnownIssue(
            id=row["id"],
            severity=row["severity"],
            what=row["what"],
            when=_conditions(row),
            fix=row["fix"],
            prevented=row["prevented"],
            builds=builds_of(row),
            origin=origin_of(row),
        )
        for row in read_rows("llama_known_issues.json")
    )


@cache
def all_adjustments() -> tuple[Adjustment, ...]:
    """Return every adjustment."""
    return tuple(
        Adjustment(
            setting=Setting(row["setting"]),
            value=row["value"],
            when=_conditions(row),
            why=row["why"],
            issue=row["issue"],
            builds=builds_of(row),
            origin=origin_of(row),
        )
        for row in read_rows("llama_adjustments.json")
    )


def known_issues(build: int, situation: Situation) -> Sequence[KnownIssue]:
    """Return the issues that `build` has in `situation` and hetctl does not prevent."""
    return [issue for issue in all_issues() if not issue.prevented and issue.applies(build, situation)]


def adjustment(setting: Setting, build: int, situation: Situation) -> Adjustment | None:
    """Return what `setting` should be in `situation` when the manifest does not say; None: not known."""
    for row in all_adjustments():
        if row.setting is setting and build in row.builds and all(each.holds(situation) for each in row.when):
            return row
    return None


def _conditions(row: Row) -> tuple[Condition, ...]:
    return tuple(Condition(fact, test, value) for fact, test, value in row["when"])
