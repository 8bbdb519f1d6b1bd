from __future__ import annotations

import re

import pytest

from hetctl.catalog.issues import KnownIssue, Situation, all_issues
from hetctl.errors import Position
from hetctl.rules.finding import Severity
from hetctl.rules.known_issues import finding_code, known_issue_findings

PLACE = Position("cluster.yaml", 12, 3)


def test_a_finding_carries_what_the_catalogue_knows() -> None:
    tensor = Situation(split_mode="tensor", kv_types=frozenset({"q5_1"}), devices=2)
    found = {each.code: each for each in known_issue_findings("placement chat", 11434, tensor, PLACE)}
    finding = found["TENSOR_SPLIT_KV_FORMAT"]
    assert finding.severity is Severity.ERROR
    assert (finding.where, finding.position) == ("placement chat", PLACE)
    assert finding.what == "Split mode tensor ends with an assertion for these KV formats"
    assert finding.why == "llama.cpp from b9455; github.com/ggml-org/llama.cpp issue 27116"
    assert finding.fix == "set kvCache to f16, bf16, q8_0 or q4_0"


def test_a_placement_without_faults_has_no_findings() -> None:
    assert known_issue_findings("placement chat", 11434, Situation(rpc=True, endpoints=2), PLACE) == []


@pytest.mark.parametrize("issue", all_issues(), ids=lambda issue: issue.id)
def test_codes_are_words_as_those_of_other_findings(issue: KnownIssue) -> None:
    assert re.fullmatch(r"[A-Z0-9]+(_[A-Z0-9]+)*", finding_code(issue))


def test_no_two_issues_have_one_code() -> None:
    assert len({finding_code(issue) for issue in all_issues()}) == len(all_issues())


@pytest.mark.parametrize(
    "issue", [each for each in all_issues() if not each.prevented], ids=lambda each: each.id
)
def test_what_warns_or_blocks_can_be_acted_on_now(issue: KnownIssue) -> None:
    if issue.severity != "info":
        assert issue.fix
        conditional = issue.fix.endswith("if it happens")
        assert not conditional or "split_mode" in {condition.fact for condition in issue.when}
