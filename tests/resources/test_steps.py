from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hetctl.resources.activity import RUNNING, STOPPED
from hetctl.resources.base import Action, Change, Cost, Desired, Mark, Step, digest
from hetctl.resources.coupling import couple
from hetctl.resources.marks import PROVED
from hetctl.resources.steps import CompileStep, expand
from hetctl.resources.work import Work, superseded_paths
from hetctl.transport.workstation import Workstation

WORK = Work(cluster="den", workstation=Workstation(Path("/nowhere")), model_sources={}, shared_paths={})

DEPENDS: dict[str, tuple[str, ...]] = {
    "member/head": (),
    "member/left": (),
    "build/main@head": ("member/head",),
    "build/main@left": ("member/left",),
    "model/gemma@head": ("member/head",),
    "firewall/chat@left": ("member/left",),
    "worker/chat@left": ("member/left", "build/main@left", "firewall/chat@left"),
    "server/chat": ("member/head", "build/main@head", "model/gemma@head", "worker/chat@left"),
}
NODE = {address: "left" if "left" in address else "head" for address in DEPENDS}


def change(
    address: str, action: Action, *, marked: bool = False, cost: Cost = Cost.MODEL_RELOAD, node: str = ""
) -> Change:
    kind = address.partition("/")[0]
    gang = "chat" if kind in ("worker", "server") else None
    node = node or NODE[address]
    spec = {"key": "k1", "path": "/b/k1", "directory": "/m/k1", "placement": "chat", "ports": {"20052": []}}
    desired = Desired(address, kind, node, spec, DEPENDS[address], gang)
    mark = Mark("den", address, kind, node, spec, digest(spec), 1, DEPENDS[address], gang)
    return Change(
        address,
        kind,
        node,
        action,
        desired=None if action is Action.REMOVE else desired,
        mark=mark if marked or action is Action.REMOVE else None,
        cost=cost,
        gang=gang,
        depends_on=DEPENDS[address],
    )


def order(steps: list[Step]) -> dict[str, set[str]]:
    """Return for each step everything that must have succeeded before it."""
    direct = {step.name: set(step.needs) for step in steps}
    assert all(needs <= set(direct) for needs in direct.values()), "a step needs one that does not exist"

    def before(name: str, seen: frozenset[str] = frozenset()) -> set[str]:
        assert name not in seen, "a circle"
        return set().union(*({need} | before(need, seen | {name}) for need in direct[name]))

    return {name: before(name) for name in direct}


def test_a_first_apply_prepares_then_starts_workers_then_the_head() -> None:
    changes = [change(address, Action.CREATE) for address in DEPENDS]
    compiling = [CompileStep("compile build/main", "local", "k1", lambda _: None)]
    before = order(expand(changes, WORK, compiling=compiling, bystanders={"worker/chat@left": "spare"}))
    assert "compile build/main" in before["install build/main@left"]
    assert "record member/left on left" in before["install build/main@left"]
    assert {"raise firewall/chat@left", "install build/main@left"} <= before["start worker/chat@left"]
    assert {
        "start worker/chat@left",
        "try worker/chat@left from spare",
        "put model/gemma@head",
        "install build/main@head",
    } <= before["start server/chat on head"]
    assert not any(name.startswith("stop") for name in before)


def test_nothing_stops_before_everything_is_prepared() -> None:
    changes = [
        change("build/main@head", Action.UPDATE, marked=True),
        change("build/main@left", Action.UPDATE, marked=True),
        change("worker/chat@left", Action.UPDATE, marked=True),
        change("server/chat", Action.UPDATE, marked=True),
    ]
    before = order(expand(changes, WORK, compiling=[], bystanders={}))
    prepared = {"install build/main@head", "install build/main@left"}
    assert prepared <= before["stop server/chat on head"]
    assert "stop server/chat on head" in before["stop worker/chat@left"]
    assert "stop worker/chat@left" in before["start worker/chat@left"]
    assert "start worker/chat@left" in before["start server/chat on head"]


def test_a_new_question_restarts_nothing() -> None:
    steps = expand(
        [change("server/chat", Action.UPDATE, marked=True, cost=Cost.NOTHING)],
        WORK,
        compiling=[],
        bystanders={},
    )
    assert [step.name for step in steps] == ["prove server/chat on head"]


def test_destroy_takes_away_in_reverse_and_the_record_last() -> None:
    before = order(
        expand([change(address, Action.REMOVE) for address in DEPENDS], WORK, compiling=[], bystanders={})
    )
    assert "stop server/chat on head" in before["remove server/chat on head"]
    assert "remove server/chat on head" in before["remove worker/chat@left"]
    assert "remove worker/chat@left" in before["remove firewall/chat@left"]
    assert "remove worker/chat@left" in before["remove build/main@left"]
    assert "remove build/main@left" in before["remove member/left on left"]
    on_head = {"remove server/chat on head", "remove model/gemma@head", "remove build/main@head"}
    assert on_head <= before["remove member/head on head"]


def test_what_a_placement_no_longer_needs_goes_after_it_runs_again() -> None:
    changes = [
        change("server/chat", Action.UPDATE, marked=True),
        change("worker/chat@left", Action.REMOVE),
        change("firewall/chat@left", Action.REMOVE),
    ]
    before = order(expand(changes, WORK, compiling=[], bystanders={}))
    assert "start server/chat on head" in before["remove worker/chat@left"]
    assert "remove worker/chat@left" in before["remove firewall/chat@left"]


def test_one_change_restarts_the_whole_gang_and_nothing_else() -> None:
    changes = couple(
        [
            change("build/main@left", Action.NONE, marked=True),
            change("worker/chat@left", Action.NONE, marked=True),
            change("server/chat", Action.UPDATE, marked=True),
        ]
    )
    assert [item.action for item in changes] == [Action.NONE, Action.RESTART, Action.UPDATE]
    assert changes[1].reasons[0].text == "because the head restarts"


def test_a_change_that_interrupts_nothing_takes_nobody_along() -> None:
    changes = couple(
        [
            change("worker/chat@left", Action.NONE, marked=True),
            change("server/chat", Action.UPDATE, marked=True, cost=Cost.NOTHING),
        ]
    )
    assert [item.action for item in changes] == [Action.NONE, Action.UPDATE]


def test_a_failed_switch_goes_back_and_a_removal_does_not() -> None:
    update = [change(address, Action.UPDATE, marked=True) for address in ("worker/chat@left", "server/chat")]
    steps = {step.name: step for step in expand(update, WORK, compiling=[], bystanders={})}
    rescue = steps.pop("go back server/chat")
    assert rescue.rescues == {name for name in steps if not name.startswith("stage ")}
    assert rescue.also == {"left", "head"}
    gone = [change(address, Action.REMOVE) for address in ("worker/chat@left", "server/chat")]
    assert not [step for step in expand(gone, WORK, compiling=[], bystanders={}) if step.rescues]


def test_only_the_generation_before_the_previous_one_is_collected() -> None:
    def generation(key: str, *, state: str, previous: str | None) -> Mark:
        spec = {"key": key, "path": f"/b/{key}"}
        facts = {
            "state": state,
            "previous": {"spec": {"path": f"/b/{previous}"}, "objects": []} if previous else None,
        }
        return Mark("den", "build/main@left", "build", "left", spec, digest(spec), 1, facts=facts)

    def left_over(mark: Mark, wanted: str) -> list[str]:
        spec = {"key": wanted, "path": f"/b/{wanted}"}
        desired = Desired("build/main@left", "build", "left", spec)
        return superseded_paths(
            Change("build/main@left", "build", "left", Action.UPDATE, desired=desired, mark=mark)
        )

    assert left_over(generation("k1", state="proved", previous=None), "k2") == []
    assert left_over(generation("k2", state="proved", previous="k1"), "k3") == ["/b/k1"]
    # k2 was never proved, so k1 is still what there is to go back to
    assert left_over(generation("k2", state="making", previous="k1"), "k3") == ["/b/k2"]
    # back to what was there before
    assert left_over(generation("k2", state="proved", previous="k1"), "k1") == []


def test_what_a_process_runs_from_is_not_replaced_under_it() -> None:
    changes = couple(
        [
            change("build/main@left", Action.UPDATE, marked=True),
            change("worker/chat@left", Action.NONE, marked=True),
            change("server/chat", Action.NONE, marked=True),
        ]
    )
    assert [item.action for item in changes] == [Action.UPDATE, Action.RESTART, Action.RESTART]
    assert changes[1].reasons[0].text == "because build/main@left is replaced"
    assert changes[2].reasons[0].text == "because worker/chat@left restarts"


def test_a_cleaned_node_is_taken_off_the_others_records_last() -> None:
    gone = [change(address, Action.REMOVE) for address in ("worker/chat@left", "member/left")]
    records = [change("member/head", Action.UPDATE, marked=True, cost=Cost.NOTHING)]
    before = order(expand([*records, *gone], WORK, compiling=[], bystanders={}, records=records))
    assert {"remove member/left on left", "record member/head on head"} <= before["forget left on head"]
    untouched = [change("member/head", Action.NONE, marked=True)]
    before = order(expand(gone, WORK, compiling=[], bystanders={}, records=untouched))
    assert "remove member/left on left" in before["forget left on head"]


def test_no_packet_filter_is_raised_on_a_port_that_belongs_to_somebody_else() -> None:
    firewall = change("firewall/chat@left", Action.CREATE, cost=Cost.NOTHING)
    assert firewall.desired is not None
    spec = {**firewall.desired.spec, "placement": "chat"}
    firewall = replace(firewall, desired=replace(firewall.desired, spec=spec))
    changes = couple([firewall, change("worker/chat@left", Action.BLOCKED)])
    assert [item.action for item in changes] == [Action.BLOCKED, Action.BLOCKED]
    changes = couple([firewall, change("worker/chat@left", Action.CREATE)])
    assert changes[0].action is Action.CREATE


def test_a_placement_that_takes_over_starts_after_the_other_stopped() -> None:
    leaving = [
        _in_state(change(address, Action.UPDATE, marked=True), STOPPED)
        for address in ("worker/chat@left", "server/chat")
    ]
    arriving = [
        _renamed(_in_state(change(address, Action.CREATE), RUNNING), ("server/chat", "worker/chat@left"))
        for address in ("worker/chat@left", "server/chat")
    ]
    steps = expand([*leaving, *arriving], WORK, compiling=[], bystanders={})
    before = order(steps)
    assert {"stop server/chat on head", "stop worker/chat@left"} <= before["start worker/code@left"]
    assert "start server/code on head" in before["rest server/chat on head"]
    [rescue] = [step for step in steps if step.rescues]
    assert rescue.name == "go back server/code"
    assert "rest worker/chat@left" in rescue.rescues
    assert {step.switch for step in steps if not step.name.startswith("stage ")} == {"chat"}


def test_nothing_stops_before_every_node_can_be_written_to() -> None:
    members = [change(address, Action.UPDATE, marked=True) for address in ("worker/chat@left", "server/chat")]
    before = order(expand(members, WORK, compiling=[], bystanders={}))
    assert {"stage chat on head", "stage chat on left"} <= before["stop server/chat on head"]


def test_what_is_declared_stopped_is_written_and_not_started() -> None:
    changes = [
        _in_state(replace(change(address, Action.CREATE), cost=Cost.NOTHING), STOPPED)
        for address in ("worker/chat@left", "server/chat")
    ]
    names = {step.name for step in expand(changes, WORK, compiling=[], bystanders={})}
    assert names == {"rest worker/chat@left", "rest server/chat on head"}


def _in_state(it: Change, state: str) -> Change:
    assert it.desired is not None
    return replace(it, desired=replace(it.desired, spec={**it.desired.spec, "state": state}))


def _renamed(it: Change, after: tuple[str, ...]) -> Change:
    assert it.desired is not None
    address = it.address.replace("chat", "code")
    desired = replace(it.desired, address=address, gang="code", depends_on=after)
    return replace(it, address=address, gang="code", desired=desired, depends_on=after)


def test_a_filter_that_guards_another_port_switches_with_its_placement() -> None:
    moving = _guarding(change("firewall/chat@left", Action.UPDATE, marked=True), {"20053": []})
    members = [change(address, Action.UPDATE, marked=True) for address in ("worker/chat@left", "server/chat")]
    steps = expand([moving, *members], WORK, compiling=[], bystanders={})
    before = order(steps)
    assert "guard firewall/chat@left" in before["stop server/chat on head"]
    assert {"start worker/chat@left", "start server/chat on head"} <= before["raise firewall/chat@left"]
    assert "turn firewall/chat@left" not in before  # no port is for others than before
    [rescue] = [step for step in steps if step.rescues]
    assert "raise firewall/chat@left" in rescue.rescues
    assert "left" in rescue.also


def test_a_port_that_is_for_others_turns_while_nobody_listens() -> None:
    moving = _guarding(change("firewall/chat@left", Action.UPDATE, marked=True), {"20052": ["10.0.0.9"]})
    members = [change(address, Action.UPDATE, marked=True) for address in ("worker/chat@left", "server/chat")]
    before = order(expand([moving, *members], WORK, compiling=[], bystanders={}))
    assert {"stop server/chat on head", "stop worker/chat@left"} <= before["turn firewall/chat@left"]
    assert "turn firewall/chat@left" in before["start worker/chat@left"]


def test_a_filter_whose_placement_has_to_wait_guards_both() -> None:
    moving = _guarding(change("firewall/chat@left", Action.UPDATE, marked=True), {"20053": []})
    steps = expand([moving], WORK, compiling=[], bystanders={}, held=frozenset({"chat"}))
    assert [step.name for step in steps] == ["guard firewall/chat@left"]


def test_a_filter_that_changes_alone_is_raised_at_once() -> None:
    moving = _guarding(change("firewall/chat@left", Action.UPDATE, marked=True), {"20053": []})
    assert [step.name for step in expand([moving], WORK, compiling=[], bystanders={})] == [
        "raise firewall/chat@left"
    ]


def _guarding(it: Change, ports: dict[str, list[str]]) -> Change:
    assert it.desired is not None
    assert it.mark is not None
    facts = {"state": PROVED}
    desired = replace(it.desired, spec={**it.desired.spec, "ports": ports})
    return replace(it, desired=desired, mark=replace(it.mark, facts=facts))
