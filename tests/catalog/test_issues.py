"""Which known faults apply to which placement."""

from __future__ import annotations

from dataclasses import fields

import pytest

from hetctl.catalog.flags import Setting
from hetctl.catalog.issues import (
    Condition,
    KnownIssue,
    Situation,
    adjustment,
    all_adjustments,
    all_issues,
    known_issues,
)

CUDA = frozenset({"cuda"})


def found(build: int, situation: Situation) -> set[str]:
    return {issue.id for issue in known_issues(build, situation)}


@pytest.mark.parametrize(
    ("situation", "issue", "affected", "unaffected"),
    [
        (
            Situation(split_mode="tensor", kv_types=frozenset({"q8_0"})),
            "tensor-split-quantised-kv",
            [9454],
            [9455],
        ),
        (
            Situation(split_mode="tensor", kv_types=frozenset({"f16", "q5_1"})),
            "tensor-split-kv-format",
            [9455, 11434],
            [9454],
        ),
        (Situation(split_mode="row", backends=CUDA), "row-split-gone", [9890, 11434], [9889]),
        (Situation(worker_exposed=True), "worker-takes-code", [10941, 11002], [11003]),
        (Situation(rpc=True, endpoints=2), "pointers-of-another-worker", [10688], [10752]),
        (Situation(rpc=True, endpoints=3), "three-workers-hang", [10620, 11434], [10619]),
        (Situation(tensor_cache=True), "tensor-cache-grows", [11002], [11003]),
        (Situation(rpc=True, speculative=True), "speculation-over-workers", [9095], [9374]),
        (Situation(rpc=True, prompt_cache=True), "prompt-cache-over-workers", [10200, 11434], [10199]),
        (Situation(rpc=True, largest_tensor=5 * 2**30), "large-tensor-strides", [11003], [11434]),
        (Situation(backends=CUDA, kv_pair="q8_0-f16"), "kv-pair-without-kernel", [10877], [10878]),
        (Situation(backends=CUDA, kv_pair="q8_0-f16"), "kv-pair-converted", [11434], [10877]),
        (
            Situation(environment=frozenset({"GGML_CUDA_P2P"})),
            "peer-access-by-presence",
            [9095, 11434],
            [],
        ),
        (Situation(embedding=True), "embedding-logits", [11434], []),
    ],
)
def test_an_issue_applies_in_its_builds(
    situation: Situation, issue: str, affected: list[int], unaffected: list[int]
) -> None:
    assert all(issue in found(build, situation) for build in affected)
    assert not any(issue in found(build, situation) for build in unaffected)
    assert all(issue not in found(build, Situation()) for build in affected)


def test_a_plain_placement_has_no_issue_on_the_newest_build() -> None:
    assert found(11434, Situation()) == set()
    assert found(11434, Situation(rpc=True, endpoints=2, devices=2)) == set()


def test_what_hetctl_prevents_is_known_and_not_reported() -> None:
    prevented = {issue.id for issue in all_issues() if issue.prevented}
    everything = Situation(rpc=True, endpoints=4, speculative=True)
    assert "one-client" in prevented
    assert not prevented & found(11434, everything)


@pytest.mark.parametrize("issue", all_issues(), ids=lambda issue: issue.id)
def test_every_issue_is_well_formed(issue: KnownIssue) -> None:
    assert issue.severity in {"error", "warning", "info"}
    assert issue.what.endswith((".", '".', ").")) or issue.what.endswith('"')
    assert issue.prevented or issue.fix or issue.severity == "info"
    known = {field.name for field in fields(Situation)}
    for condition in issue.when:
        assert condition.fact in known
        condition.holds(Situation())


def test_ids_are_unique() -> None:
    assert len({issue.id for issue in all_issues()}) == len(all_issues())


def test_the_prompt_cache_is_off_where_a_worker_takes_part() -> None:
    with_worker = adjustment(Setting.CACHE_RAM, 11434, Situation(rpc=True))
    alone = adjustment(Setting.CACHE_RAM, 11434, Situation())
    assert with_worker is not None
    assert alone is not None
    assert (with_worker.value, with_worker.issue) == (0, "prompt-cache-over-workers")
    assert alone.value == 8192
    assert adjustment(Setting.PORT, 11434, Situation()) is None


def test_adjustments_name_issues_that_exist() -> None:
    ids = {issue.id for issue in all_issues()} | {""}
    assert all(row.issue in ids and row.why for row in all_adjustments())


def test_an_unknown_test_is_a_bug() -> None:
    with pytest.raises(ValueError, match="no such test"):
        Condition("rpc", "matches", "x").holds(Situation())
