"""While a placement switches, nobody may reach a port who may not before or afterwards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hetctl.resources.base import Action, Change, Desired, Mark
from hetctl.resources.marks import PROVED, UNFINISHED
from hetctl.resources.packet_filter import Ports, between, moves, ports_before, turns

SOURCES = st.lists(st.sampled_from(["10.0.0.5", "10.0.0.6", "10.9.0.0/16"]), max_size=3, unique=True)
PORTS = st.dictionaries(st.sampled_from(["8080", "20052", "20053", "20054"]), SOURCES)


def change(before: Ports, after: Ports, *, state: str = PROVED, previous: Ports | None = None) -> Change:
    facts = {"state": state, "previous": {"spec": {"ports": previous}} if previous is not None else None}
    address = "firewall/chat@left"
    mark = Mark("den", address, "firewall", "left", {"ports": before}, "", 1, facts=facts)
    desired = Desired(address, "firewall", "left", {"ports": after})
    return Change(address, "firewall", "left", Action.UPDATE, desired=desired, mark=mark)


@given(PORTS, PORTS)
def test_every_port_of_both_generations_is_guarded_all_the_time(before: Ports, after: Ports) -> None:
    for turned in (False, True):
        rules = {str(rule.port): list(rule.sources) for rule in between(before, after, turned=turned)}
        assert rules.keys() == {**before, **after}.keys()
        for port, sources in rules.items():
            allowed = [list(ports[port]) for ports in (before, after) if port in ports]
            assert sources in allowed


@given(PORTS, PORTS)
def test_what_stands_keeps_its_rules_until_it_has_stopped(before: Ports, after: Ports) -> None:
    standing = {str(rule.port): list(rule.sources) for rule in between(before, after, turned=False)}
    assert {port: standing[port] for port in before} == before
    coming = {str(rule.port): list(rule.sources) for rule in between(before, after, turned=True)}
    assert {port: coming[port] for port in after} == after


@given(PORTS, PORTS)
def test_without_a_port_that_turns_both_sets_of_rules_are_one(before: Ports, after: Ports) -> None:
    if not turns(change(before, after)):
        assert between(before, after, turned=False) == between(before, after, turned=True)


def test_a_filter_that_is_new_or_only_drifted_has_nothing_to_hold_on_to() -> None:
    assert not moves(change({"20052": ["10.0.0.5"]}, {"20052": ["10.0.0.5"]}))
    assert not moves(change({}, {"20052": ["10.0.0.5"]}))
    assert moves(change({"20052": ["10.0.0.5"]}, {"20053": ["10.0.0.5"]}))


def test_an_unfinished_change_goes_on_from_what_was_proved() -> None:
    cut_off = change({"20053": []}, {"20053": []}, state=UNFINISHED, previous={"20052": []})
    assert ports_before(cut_off) == {"20052": []}
    assert moves(cut_off)
