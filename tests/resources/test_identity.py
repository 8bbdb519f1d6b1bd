"""Which machine is which: names that change, addresses that change, machines that are declared twice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hetctl.engine.examine import undeclared
from hetctl.engine.plan import Evidence, make_plan
from hetctl.errors import NodeUnreachable
from hetctl.manifest import load
from hetctl.manifest.references import resolve
from hetctl.resources.base import Action, Change, Cost, Mark, Observed
from hetctl.resources.coupling import couple
from hetctl.resources.desired import desired_state
from hetctl.resources.identity import (
    departed,
    identity_findings,
    neighbours,
    record_entries,
    understood,
    unreadable_marks,
)
from hetctl.resources.provider import NodeObservation, Plan, Survey
from hetctl.resources.reading import NodeReading
from hetctl.resources.registry import KINDS
from hetctl.resources.renaming import declared_renames
from hetctl.rules.finding import Severity
from tests.fit import gguf_writer
from tests.resources.den import START, Den, machine

NODES = """
nodes:
  atlas: {address: 10.0.0.5}
  bench: {address: 10.0.0.7, cpuWorkers: {pool: {threads: 4}}}
"""
CHAT = """
placements:
  chat:
    model: gemma
    devices: [bench/pool]
    server: {node: atlas}
"""


@dataclass
class Machine:
    """A machine: what it is, what is on it, and what its record says."""

    machine_id: str
    boot_id: str = "boot"
    marks: Mapping[str, Mark] = field(default_factory=dict)
    earlier: tuple[Mark, ...] = ()
    members: Mapping[str, Any] | None = None
    names: tuple[str, ...] = ()

    def reading(self, node: str, address: str) -> NodeReading:
        return NodeReading(
            node=node,
            peer_address=address,
            facts=machine(machine_id=self.machine_id, boot_id=self.boot_id),
            marks={address: replace(mark, node=node) for address, mark in self.marks.items()},
            earlier=tuple(replace(mark, node=node) for mark in self.earlier),
            members=self.members,
            names=self.names,
        )


@dataclass
class World:
    """Machines by address, and the manifest over them."""

    directory: Path
    machines: dict[str, Machine]

    def den(self, text: str) -> Den:
        return Den(self.directory, text, model=gguf_writer.transformer(layers=5))

    def survey(self, den: Den, silent: tuple[str, ...] = ()) -> Survey:
        """Read the declared nodes, then the recorded ones, as a run does."""
        inputs = den.inputs
        nodes = inputs.resolved.nodes
        readings = {
            name: self.machines[node.address].reading(name, node.address)
            for name, node in nodes.items()
            if node.address in self.machines and name not in silent
        }
        for name, item in departed(readings, nodes).items():
            if item.address in self.machines:
                readings[name] = self.machines[item.address].reading(name, item.address)
        known = set(readings)
        unknown = {name: NodeUnreachable("silent") for name in {*nodes} - known}
        seen = Survey(readings, unknown, undeclared=frozenset(known - set(nodes)))
        return understood(seen, nodes, declared_renames(inputs.resolved.cluster))

    def plan(self, den: Den, survey: Survey) -> Plan:
        state = desired_state(replace(den.inputs, survey=survey))
        observations = {}
        for node, reading in survey.readings.items():
            here = [item for item in state.resources if item.node == node]
            observations[node] = NodeObservation(
                {item.address: self._seen(reading, item.address) for item in here},
                {mark.address: self._seen(reading, mark.address) for mark in undeclared(reading.marks, here)},
            )
        return make_plan(
            cluster=den.inputs.cluster,
            manifest_digest="",
            state=state,
            evidence=Evidence(observations, unknown=dict.fromkeys(survey.unknown, "silent")),
            kinds=KINDS,
            together=couple,
        )

    def _seen(self, reading: NodeReading, address: str) -> Observed:
        """Return an observation without drift: nothing but marks and the record is looked at."""
        mark = reading.marks.get(address)
        if mark is not None:
            mark = replace(mark, objects=())
        return Observed(mark, ({"members": reading.members},))

    def apply(self, den: Den) -> None:
        """Make the machines what the manifest says."""
        survey = self.survey(den)
        inputs = replace(den.inputs, survey=survey)
        state = desired_state(inputs)
        applied = replace(den, marks=()).remembering(state.resources)
        for name, node in inputs.resolved.nodes.items():
            here = self.machines[node.address]
            marks = {
                mark.address: replace(mark, cluster=inputs.cluster)
                for mark in applied.marks
                if mark.node == name
            }
            here.marks, here.names = marks, (name,)
            here.members = marks[f"member/{name}"].spec


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, {"10.0.0.5": Machine("five", "a"), "10.0.0.7": Machine("seven", "b")})
    made.apply(made.den(NODES + CHAT))
    return made


def changes(plan: Plan) -> dict[str, Action]:
    return {
        f"{each.address} on {each.node}": each.action
        for each in plan.changes
        if each.action is not Action.NONE
    }


def restarting(plan: Plan) -> list[Change]:
    return [change for change in plan.pending if change.cost is not Cost.NOTHING]


def test_a_cluster_that_is_as_declared_has_no_changes(world: World) -> None:
    den = world.den(NODES + CHAT)
    assert changes(world.plan(den, world.survey(den))) == {}


def test_the_record_says_which_machine_a_node_is(world: World) -> None:
    record = world.machines["10.0.0.5"].members
    assert record is not None
    assert record["nodes"]["bench"]["machine_id"] == "seven"


# -- a node with another name ------------------------------------------------------------------------------

RENAMED = NODES.replace("bench:", "desk:") + CHAT.replace("bench/", "desk/")


@pytest.mark.parametrize("said", ["", "renamedFrom: bench, "])
def test_a_node_that_was_renamed_keeps_all_it_has_and_restarts_nothing(world: World, said: str) -> None:
    den = world.den(RENAMED.replace("desk: {", f"desk: {{{said}"))
    survey = world.survey(den)
    assert set(survey.readings) == {"atlas", "desk"}
    assert survey.undeclared == frozenset()
    plan = world.plan(den, survey)
    assert restarting(plan) == []
    assert changes(plan) == {
        "member/atlas on atlas": Action.UPDATE,
        "member/desk on desk": Action.UPDATE,
        "build/main@desk on desk": Action.RENAME,
        "firewall/chat@desk on desk": Action.RENAME,
        "worker/chat@desk.pool on desk": Action.RENAME,
        "server/chat on atlas": Action.RENAME,
    }
    worker = next(each for each in plan.changes if each.kind == "worker")
    assert [reason.text for reason in worker.reasons] == ["was worker/chat@bench.pool"]


def test_a_renamed_node_that_changes_otherwise_restarts_as_it_would(world: World) -> None:
    den = world.den(RENAMED.replace("    server:", "    context: 512\n    server:"))
    plan = world.plan(den, world.survey(den))
    assert {change.kind for change in restarting(plan)} == {"server", "worker"}
    worker = next(each for each in plan.changes if each.kind == "worker")
    assert worker.action is Action.RESTART
    assert worker.mark is not None
    assert worker.mark.stored is not None


def test_two_nodes_may_swap_their_names(world: World) -> None:
    both = NODES.replace("10.0.0.5}", "10.0.0.5, cpuWorkers: {pool: {threads: 4}}}")
    world.apply(world.den(both + CHAT))
    text = both.replace("10.0.0.5", "X").replace("10.0.0.7", "10.0.0.5").replace("X", "10.0.0.7")
    den = world.den(text + CHAT.replace("bench/", "atlas/").replace("node: atlas", "node: bench"))
    survey = world.survey(den)
    assert set(survey.readings) == {"atlas", "bench"}
    assert "worker/chat@atlas.pool" in survey.readings["atlas"].marks
    assert "server/chat" in survey.readings["bench"].marks


# -- a node with another address ---------------------------------------------------------------------------


def test_a_machine_that_got_another_address_is_the_same_node(world: World) -> None:
    world.machines["10.0.0.9"] = world.machines.pop("10.0.0.7")
    den = world.den((NODES + CHAT).replace("10.0.0.7", "10.0.0.9"))
    survey = world.survey(den)
    assert set(survey.readings) == {"atlas", "bench"}
    assert departed(survey.readings, den.inputs.resolved.nodes) == {}
    plan = world.plan(den, survey)
    assert not any(action is Action.REMOVE for action in changes(plan).values())


def test_a_name_that_moved_to_another_machine_leaves_the_old_one_to_be_cleaned(world: World) -> None:
    world.machines["10.0.0.9"] = Machine("nine", "c")
    den = world.den((NODES + CHAT).replace("10.0.0.7", "10.0.0.9"))
    survey = world.survey(den)
    assert set(survey.readings) == {"atlas", "bench", "bench at 10.0.0.7"}
    plan = world.plan(den, survey)
    found = changes(plan)
    assert found["worker/chat@bench.pool on bench"] is Action.CREATE
    assert found["worker/chat@bench.pool on bench at 10.0.0.7"] is Action.REMOVE
    assert found["member/bench on bench at 10.0.0.7"] is Action.REMOVE
    member = next(each for each in plan.changes if each.address == "member/atlas")
    assert member.desired is not None
    assert set(member.desired.spec["leaving"]) == {"bench at 10.0.0.7"}
    # applied without --prune, the old machine is still known; and again when it does not answer
    world.machines["10.0.0.5"].members = member.desired.spec
    gone = world.machines.pop("10.0.0.7")
    silent = world.survey(den)
    assert set(departed(silent.readings, den.inputs.resolved.nodes)) == {"bench at 10.0.0.7"}
    world.machines["10.0.0.7"] = gone
    assert "bench at 10.0.0.7" in world.survey(den).readings


def test_a_copy_with_an_id_of_its_own_is_not_the_machine_it_was_copied_from(world: World) -> None:
    original = world.machines["10.0.0.7"]
    world.machines["10.0.0.9"] = replace(original, machine_id="nine", boot_id="c")
    survey = world.survey(world.den((NODES + CHAT).replace("10.0.0.7", "10.0.0.9")))
    assert "bench at 10.0.0.7" in survey.readings


def test_another_machine_at_a_recorded_address_is_no_leaving_node(world: World) -> None:
    world.machines["10.0.0.9"] = Machine("nine", "c")
    world.machines["10.0.0.7"] = Machine("somebody else", "d")
    den = world.den((NODES + CHAT).replace("10.0.0.7", "10.0.0.9"))
    survey = world.survey(den)
    assert set(survey.readings) == {"atlas", "bench"}
    assert "another machine" in survey.unknown["bench at 10.0.0.7"].what


def test_a_node_that_is_silent_at_its_new_address_stays_recorded_where_it_was(world: World) -> None:
    den = world.den((NODES + CHAT).replace("10.0.0.7", "10.0.0.9"))
    survey = world.survey(den)
    assert departed(survey.readings, den.inputs.resolved.nodes) == {}
    entries = record_entries(survey.readings, den.inputs.resolved.nodes)
    assert (entries["bench"].address, entries["bench"].machine_id) == ("10.0.0.7", "seven")


@pytest.mark.parametrize("text", [NODES + CHAT, RENAMED], ids=["same name", "another name"])
def test_a_machine_installed_anew_is_said_to_be_another(world: World, text: str) -> None:
    world.machines["10.0.0.7"] = Machine("seven again", "c")
    den = world.den(text)
    survey = world.survey(den)
    resolved = den.inputs.resolved
    (finding,) = identity_findings(survey, resolved.nodes, lambda name: den.inputs.position("nodes", name))
    assert (finding.code, finding.severity) == ("MACHINE_REPLACED", Severity.WARNING)
    assert departed(survey.readings, resolved.nodes) == {}


# -- one machine twice -------------------------------------------------------------------------------------


def test_one_machine_under_two_names_is_an_error_with_both_lines(world: World) -> None:
    world.machines["fast.cable"] = world.machines["10.0.0.7"]
    den = world.den(NODES + "  again: {address: fast.cable}\n" + CHAT)
    survey = world.survey(den)
    assert set(survey.readings) == {"atlas", "bench"}
    resolved = den.inputs.resolved
    (finding,) = identity_findings(survey, resolved.nodes, lambda name: den.inputs.position("nodes", name))
    assert (finding.code, finding.severity) == ("SAME_MACHINE", Severity.ERROR)
    assert len(re.findall(r"cluster\.yaml:\d+", finding.what)) == 2


def test_copies_of_one_installation_are_different_machines(world: World) -> None:
    world.machines["10.0.0.9"] = Machine("seven", "another boot")
    den = world.den(NODES + "  copy: {address: 10.0.0.9}\n" + CHAT)
    survey = world.survey(den)
    assert set(survey.readings) == {"atlas", "bench", "copy"}
    resolved = den.inputs.resolved
    (finding,) = identity_findings(survey, resolved.nodes, lambda name: den.inputs.position("nodes", name))
    assert (finding.code, finding.severity) == ("MACHINE_ID_SHARED", Severity.WARNING)


def test_a_copy_that_takes_a_new_name_does_not_hide_the_machine_that_leaves(world: World) -> None:
    world.machines["10.0.0.9"] = Machine("seven", "another boot")
    den = world.den(RENAMED.replace("10.0.0.7", "10.0.0.9"))
    survey = world.survey(den)
    assert set(survey.readings) == {"atlas", "desk", "bench"}
    assert survey.undeclared == {"bench"}


# -- builds, models, placements, clusters ------------------------------------------------------------------


def test_a_renamed_placement_is_switched_under_its_new_name_with_its_port(world: World) -> None:
    world.machines["10.0.0.7"].marks = dict(world.machines["10.0.0.7"].marks)
    den = world.den(NODES + CHAT.replace("  chat:", "  talk:\n    renamedFrom: chat"))
    plan = world.plan(den, world.survey(den))
    found = changes(plan)
    assert found == {
        "worker/talk@bench.pool on bench": Action.UPDATE,
        "firewall/talk@bench on bench": Action.UPDATE,
        "server/talk on atlas": Action.UPDATE,
    }
    for change in plan.pending:
        assert change.mark is not None
        assert change.desired is not None
        assert change.mark.spec["unit"] != change.desired.spec["unit"]
        assert change.mark.stored is not None


def test_without_renamed_from_a_placement_goes_and_another_comes(world: World) -> None:
    den = world.den(NODES + CHAT.replace("  chat:", "  talk:"))
    found = changes(world.plan(den, world.survey(den)))
    assert found["server/talk on atlas"] is Action.CREATE
    assert found["server/chat on atlas"] is Action.REMOVE


def test_a_renamed_build_and_model_stay_where_they_lie(world: World) -> None:
    den = world.den(NODES + CHAT)
    inputs = den.inputs
    path = den.directory / "cluster.yaml"
    text = (
        path.read_text()
        .replace("model: gemma", "model: gem")
        .replace("  gemma: {", "  gem: {renamedFrom: gemma, ")
    )
    text = text.replace("  main: {", "  newest: {renamedFrom: main, ")
    path.write_text(text)
    resolved = resolve(load([path]))
    inputs = replace(
        inputs,
        resolved=resolved,
        shapes={"gem": inputs.shapes["gemma"]},
        rpc_headers={"newest": inputs.rpc_headers["main"]},
    )
    readings = {
        name: world.machines[node.address].reading(name, node.address)
        for name, node in resolved.nodes.items()
    }
    survey = understood(Survey(readings), resolved.nodes, declared_renames(resolved.cluster))
    wanted = {item.address: item for item in desired_state(replace(inputs, survey=survey)).resources}
    marks = {address: mark for reading in survey.readings.values() for address, mark in reading.marks.items()}
    assert {"build/newest@atlas", "model/gem@atlas"} <= set(marks)
    assert {name for name, item in wanted.items() if item.spec_hash != marks[name].spec_hash} == set()


def test_a_renamed_cluster_takes_over_what_carries_its_old_name(world: World) -> None:
    for each in world.machines.values():
        each.earlier, each.marks = tuple(each.marks.values()), {}
    den = world.den(NODES + CHAT)
    path = den.directory / "cluster.yaml"
    den.inputs  # noqa: B018 - writes the manifest
    path.write_text(path.read_text().replace(START, START.replace("den", "lair") + "renamedFrom: den\n"))
    resolved = resolve(load([path]))
    readings = {
        name: world.machines[node.address].reading(name, node.address)
        for name, node in resolved.nodes.items()
    }
    survey = understood(Survey(readings), resolved.nodes, declared_renames(resolved.cluster))
    mark = survey.readings["atlas"].marks["server/chat"]
    assert mark.cluster == "lair"
    assert mark.stored is not None
    assert mark.stored.cluster == "den"
    wanted = {
        item.address: item
        for item in desired_state(replace(den.inputs, resolved=resolved, survey=survey)).resources
    }
    assert wanted["server/chat"].spec["unit"].startswith("hetctl:lair:")
    assert wanted["worker/chat@bench.pool"].spec["port"] == 20052
    assert (
        wanted["model/gemma@atlas"].spec_hash == survey.readings["atlas"].marks["model/gemma@atlas"].spec_hash
    )


def test_another_cluster_on_a_node_is_named(world: World) -> None:
    survey = world.survey(world.den(NODES + CHAT))
    reading = survey.readings["atlas"]
    foreign = tuple(replace(mark, cluster="attic") for mark in reading.marks.values())
    (finding,) = neighbours({"atlas": replace(reading, foreign=foreign)})
    assert (finding.severity, finding.where) == (Severity.INFO, "atlas")
    assert "attic" in finding.what
    assert neighbours(survey.readings) == []


def test_marks_of_a_newer_format_are_refused(world: World) -> None:
    survey = world.survey(world.den(NODES + CHAT))
    newer = replace(survey.readings["atlas"], newer={"den: server/chat": "written in format 2"})
    (finding,) = unreadable_marks({"atlas": newer})
    assert finding.severity is Severity.ERROR
    assert "newer hetctl" in finding.fix


# -- a worker that nothing uses ----------------------------------------------------------------------------


def test_pruning_a_worker_that_the_server_does_not_use_restarts_nothing(world: World) -> None:
    two = NODES.replace("{pool: {threads: 4}}", "{pool: {threads: 4}, rest: {threads: 2}}")
    world.apply(world.den(two + CHAT.replace("[bench/pool]", "[bench/pool, bench/rest]")))
    left = world.machines["10.0.0.7"].marks["worker/chat@bench.rest"]
    fewer = world.den(two + CHAT)
    first = world.plan(fewer, world.survey(fewer))
    assert {change.kind for change in restarting(first)} == {"server", "worker"}
    world.apply(fewer)  # without --prune: the worker stays
    world.machines["10.0.0.7"].marks = {**world.machines["10.0.0.7"].marks, left.address: left}
    plan = world.plan(fewer, world.survey(fewer))
    assert restarting(plan) == []
    assert changes(plan) == {"worker/chat@bench.rest on bench": Action.REMOVE}
