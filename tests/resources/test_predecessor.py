"""What a placement replaced is not forgotten when the placement or its cluster gets another name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetctl.manifest.placements import Replaces
from hetctl.resources.base import Action, Change, Desired, Mark, StepContext
from hetctl.resources.marks import PROVED, mark_for
from hetctl.resources.predecessor import give_back, predecessor_spec, retire
from hetctl.resources.renaming import Renames, translated
from hetctl.resources.work import Work
from hetctl.transport.fake import FakeSession
from hetctl.transport.workstation import Workstation

WORK = Work(cluster="lair", workstation=Workstation(Path("/nowhere")), model_sources={}, shared_paths={})
RENAMES = Renames("lair", predecessor="den", placements={"chat": "talk"})
ANSWERS: dict[str, Any] = {
    "observe": {"states": [{"exists": True}]},
    "retire": {"exists": True, "running": False, "enabled": False},
    "write_mark": {},
    "remove_mark": {},
    "make_directories": {},
    "run": {"exit": 0, "stdout": "", "stderr": ""},
}


def desired(cluster: str, placement: str, unit: str = "old.service") -> Desired:
    spec = predecessor_spec(cluster, placement, Replaces(unit=unit))
    return Desired(f"predecessor/{placement}", "predecessor", "atlas", spec, (), placement)


@pytest.fixture
def renamed() -> Change:
    old = mark_for(
        desired("den", "chat"), cluster="den", generation=1, state=PROVED, facts={"was": {"running": True}}
    )
    new = desired("lair", "talk")
    return Change(new.address, new.kind, "atlas", Action.UPDATE, desired=new, mark=translated(old, RENAMES))


def moved(session: FakeSession) -> list[list[str]]:
    return [call.arguments["argv"][-2:] for call in session.calls if call.operation == "run"]


def context(session: FakeSession) -> StepContext:
    return StepContext({"atlas": session}, lambda *_, **__: None, lambda: False)


def old_and_new(change: Change) -> tuple[str, str]:
    assert isinstance(change.mark, Mark)
    assert change.desired is not None
    return change.mark.spec["record"], change.desired.spec["record"]


def test_the_record_moves_before_anything_is_written_down_anew(renamed: Change) -> None:
    session = FakeSession("atlas", ANSWERS)
    retire(WORK, context(session), renamed)
    old, new = old_and_new(renamed)
    assert moved(session) == [[old, new]]
    names = [call.operation for call in session.calls]
    assert names.index("run") < names.index("retire")


def test_it_moves_back_when_the_placement_goes_on_under_its_old_name(renamed: Change) -> None:
    session = FakeSession("atlas", ANSWERS)
    give_back(WORK, context(session), renamed)
    old, new = old_and_new(renamed)
    assert moved(session) == [[new, old]]
    stored = next(call for call in session.calls if call.operation == "write_mark").arguments
    assert (stored["cluster"], stored["address"]) == ("den", "predecessor/chat")
    removed = next(call for call in session.calls if call.operation == "remove_mark").arguments
    assert (removed["cluster"], removed["address"]) == ("lair", "predecessor/talk")


def test_the_record_of_something_else_stays_where_it_is(renamed: Change) -> None:
    session = FakeSession("atlas", ANSWERS)
    retire(WORK, context(session), replace(renamed, desired=desired("lair", "talk", "other.service")))
    assert moved(session) == []
