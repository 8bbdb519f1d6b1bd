from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hetctl.engine.diagram import plan_diagram
from hetctl.engine.inquiry import status
from hetctl.engine.operations import ApplyOptions, apply, diff
from hetctl.engine.unlock import Holding, Locks, Unlocked
from hetctl.errors import ExitCode, ManifestInvalid, OperationFailed, Position, Problem
from hetctl.report.documents import (
    AnswerDocument,
    ApplyDocument,
    Document,
    ErrorDocument,
    EventDocument,
    GraphDocument,
    LocksDocument,
    LogDocument,
    PlanDocument,
    StatusDocument,
)
from hetctl.report.schemas import SCHEMAS, schema_text
from hetctl.report.validation import ValidationDocument
from hetctl.resources.base import Action
from hetctl.resources.view import Answer, JournalLine, JournalSource
from tests.engine.toy import Yes, cluster_of, toy
from tests.report.sample import TROUBLE

FOLDER = Path(__file__).parents[2] / "schemas"


def schema(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))


def test_a_plan_document_knows_every_action() -> None:
    named = schema("plan")["$defs"]["ChangePart"]["properties"]["action"]["enum"]
    assert sorted(named) == sorted(action.value for action in Action)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_current(name: str) -> None:
    assert (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8") == schema_text(name)
    jsonschema.Draft202012Validator.check_schema(schema(name))


def documents() -> dict[str, list[Document]]:
    cluster = cluster_of(toy("worker/chat", "b", gang="chat"), toy("server/chat", "a", gang="chat"))
    before = status(cluster)
    cluster.world.failing.add("worker/chat")
    result = apply(cluster, Yes(), ApplyOptions())
    bug = ErrorDocument.of(KeyError("x"), ExitCode.BUG)
    problem = Problem(
        "E101", "unknown key 'prot'", Position("c.yaml", 3, 5), "    prot: 1", 4, "did you mean 'port'?"
    )
    return {
        "plan": [PlanDocument.of(diff(cluster).plan, "/c.yaml"), PlanDocument.of(TROUBLE, "/c.yaml")],
        "apply": [ApplyDocument.of(result, "/c.yaml", ExitCode.APPLIED_IN_PART)],
        "status": [StatusDocument.of(before, ExitCode.UNHEALTHY)],
        "error": [
            bug,
            ErrorDocument.of(OperationFailed("no", where="a"), ExitCode.APPLIED_IN_PART),
            ErrorDocument.of(ManifestInvalid((problem,)), ExitCode.MANIFEST_INVALID),
        ],
        "graph": [GraphDocument.of(plan_diagram(diff(cluster).plan))],
        "locks": [
            LocksDocument.of(
                Locks("den", (Holding("a", {"who": "anna", "pid": 7}, 90.0),), ("b",)),
                Unlocked({"a": ("python3 (7)",)}, {}),
                ExitCode.DONE,
            )
        ],
        "answer": [AnswerDocument.of(Answer("hi", "m", 1, None, 0.5), "chat")],
        "log": [
            LogDocument.of(JournalSource("a", "server/chat", "u.service"), JournalLine(1.5, "x"), "chat")
        ],
        "validation": [ValidationDocument.of((problem,), ()), ValidationDocument.of((), (problem,))],
        "event": [EventDocument(event="finished", time="2026-01-01T00:00:00+00:00")],
    }


@pytest.mark.parametrize("name", SCHEMAS)
def test_documents_fit_their_schema(name: str) -> None:
    for document in documents()[name]:
        content = json.loads(document.text())
        jsonschema.validate(content, schema(name), cls=jsonschema.Draft202012Validator)
        assert content["formatVersion"] == 1
        assert json.loads(document.line()) == content
        assert document.line().count("\n") == 1


@pytest.mark.parametrize("name", SCHEMAS)
def test_readers_are_told_to_bear_fields_of_later_versions(name: str) -> None:
    content = json.loads(documents()[name][0].text())
    content["later"] = True
    jsonschema.validate(content, schema(name), cls=jsonschema.Draft202012Validator)


def test_a_plan_says_everything_the_text_says() -> None:
    content = json.loads(PlanDocument.of(TROUBLE, "/c.yaml").text())
    assert content["counts"] == {"add": 1, "change": 3, "remove": 1, "unknown": 1, "blocked": 1, "waiting": 1}
    change = next(item for item in content["changes"] if item["address"] == "server/embed")
    assert change["waitsFor"] == "node bench"
    assert change["reasons"][0]["drift"] is True
    assert content["placements"][0]["devices"][1]["layers"] == "5+out"
    assert content["nodesUnknown"] == {"bench": "no connection to 192.168.10.9:22: timed out"}


def test_no_document_holds_a_secret() -> None:
    cluster = cluster_of(toy("server/chat", "a", gang="chat", secrets={"me": "s3cr3t-value"}))
    plan = diff(cluster).plan
    assert "s3cr3t-value" not in PlanDocument.of(plan, "/c.yaml").text()
    assert "s3cr3t-value" not in repr(plan)
