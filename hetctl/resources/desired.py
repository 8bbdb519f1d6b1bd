"""From a resolved manifest and what the nodes said to the resources that should exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hetctl.facts.node import NodeFacts
from hetctl.manifest.placements import Replaces
from hetctl.manifest.references import DeviceKind, ResolvedPlacement
from hetctl.resources.activity import group_findings, in_state, makes_way, running_placements
from hetctl.resources.arrangement import Inputs, listen_address, source_address, topologies
from hetctl.resources.base import Desired
from hetctl.resources.compiling import rpc_protocol
from hetctl.resources.desired_build import BuildDecision, build_spec, decide_build
from hetctl.resources.desired_filter import firewall_resource
from hetctl.resources.desired_process import (
    Binaries,
    model_resource,
    placement_situation,
    server_resource,
    worker_resource,
)
from hetctl.resources.firewall import PortRule
from hetctl.resources.identity import departed, record_entries
from hetctl.resources.member import member_address
from hetctl.resources.predecessor import named, predecessor_address, predecessor_spec
from hetctl.resources.provider import DesiredState
from hetctl.resources.reading import NodeReading
from hetctl.resources.topology import LOOPBACK, Topology
from hetctl.resources.view import Endpoint
from hetctl.rules import cards, readiness
from hetctl.rules.finding import Finding
from hetctl.rules.known_issues import known_issue_findings
from hetctl.transport.base import Json


@dataclass(slots=True)
class _Collected:
    """What is put together on the way."""

    resources: list[Desired] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    endpoints: list[Endpoint] = field(default_factory=list)


def desired_state(inputs: Inputs) -> DesiredState:
    """Return every resource the manifest wants."""
    found = _Collected()
    builds = _builds(inputs)
    found.findings += [finding for decision in builds.values() for finding in decision.findings]
    found.resources += [_member(inputs, node) for node in inputs.resolved.nodes]
    placements = list(inputs.resolved.placements.values())
    arranged, running = topologies(inputs), running_placements(inputs)
    found.findings += group_findings(inputs, running)
    for build, node in dict.fromkeys(
        (item.build, node) for item in placements for node in arranged[item.name].nodes
    ):
        found.resources.append(_build(inputs, builds[build], node))
    for model, node in dict.fromkeys((item.model, item.head) for item in placements):
        found.resources.append(model_resource(inputs, model, node))
    for item in placements:
        binaries = Binaries(builds[item.build], rpc_protocol(inputs.rpc_headers[item.build]))
        _placement(inputs, item, arranged[item.name], binaries, found, running=running)
    found.findings += _node_findings(inputs, found.resources)
    return DesiredState(
        resources=tuple(found.resources), findings=tuple(found.findings), endpoints=tuple(found.endpoints)
    )


def _member(inputs: Inputs, node: str) -> Desired:
    readings, nodes = inputs.survey.readings, inputs.resolved.nodes
    return Desired(
        address=member_address(node),
        kind="member",
        node=node,
        spec={
            "cluster": inputs.cluster,
            "nodes": {name: item.entry for name, item in record_entries(readings, nodes).items()},
            "leaving": _leaving(inputs),
        },
        position=inputs.position("nodes", node),
        explain={f"nodes.{name}": inputs.position("nodes", name) for name in nodes},
    )


def _leaving(inputs: Inputs) -> dict[str, Json]:
    """Return the recorded machines that are not declared any more and may still hold something of ours.

    A machine stays on record until nothing of ours is on it, or for as long as it cannot be asked.
    """
    found: dict[str, Json] = {}
    for name, item in departed(inputs.survey.readings, inputs.resolved.nodes).items():
        there = inputs.reading(name)
        if there is None or there.marks or there.damaged:
            found[name] = item.entry
    return dict(sorted(found.items()))


def _builds(inputs: Inputs) -> dict[str, BuildDecision]:
    recorded = [mark for mark in inputs.marks() if mark.kind == "build"]
    users: dict[str, dict[str, NodeFacts]] = {}
    for item in inputs.resolved.placements.values():
        for node in item.nodes:
            if reading := inputs.reading(node):
                users.setdefault(item.build, {})[node] = reading.facts
            users.setdefault(item.build, {})
    return {
        name: decide_build(
            name,
            inputs.resolved.cluster.builds[name],
            archive_digest=inputs.digests[inputs.resolved.archives[name]],
            users=facts,
            recorded=[mark for mark in recorded if mark.spec["build"] == name],
            operator=inputs.operator,
        )
        for name, facts in users.items()
    }


def _build(inputs: Inputs, decision: BuildDecision, node: str) -> Desired:
    return Desired(
        address=f"build/{decision.name}@{node}",
        kind="build",
        node=node,
        spec=build_spec(decision, inputs.paths(node)),
        depends_on=(member_address(node),),
        position=inputs.position("builds", decision.name),
        explain={
            "version": inputs.position("builds", decision.name, "version"),
            "path": inputs.position("nodes", node, "paths", "builds"),
        },
    )


def _placement(
    inputs: Inputs,
    item: ResolvedPlacement,
    topology: Topology,
    binaries: Binaries,
    found: _Collected,
    *,
    running: frozenset[str],
) -> None:
    runs = item.name in running
    guarded: dict[str, list[PortRule]] = {}
    for worker in topology.workers:
        if worker.node != item.head and item.placement.rpc.exposure == "firewall":
            rule = PortRule(worker.port, (source_address(inputs, item.head, worker),))
            guarded.setdefault(worker.node, []).append(rule)
    if item.placement.server.allow_from:
        rule = PortRule(item.port, tuple(item.placement.server.allow_from))
        guarded.setdefault(item.head, []).append(rule)
    # A port that nobody serves is left to whoever may use it: another member of the group, say.
    firewalls = {
        node: firewall_resource(inputs, item, node, rules if runs else ()) for node, rules in guarded.items()
    }
    found.resources += firewalls.values()
    processes = [
        *(
            worker_resource(inputs, item, worker, binaries, firewalls.get(worker.node))
            for worker in topology.workers
        ),
        server_resource(inputs, item, topology, binaries, firewalls.get(item.head)),
    ]
    first = makes_way(inputs, item, running)
    if runs and item.placement.replaces is not None:
        replaced = _predecessor(inputs, item, item.placement.replaces)
        found.resources.append(replaced)
        first = (*first, replaced.address)
        processes = [
            replace(each, replaces=named(item.placement.replaces)) if each.node == replaced.node else each
            for each in processes
        ]
    found.resources += [in_state(each, runs=runs, after=first) for each in processes]
    if runs:
        found.endpoints.append(_endpoint(inputs, item))
    found.findings += _findings(inputs, item, topology, binaries.decision)


def _predecessor(inputs: Inputs, item: ResolvedPlacement, replaces: Replaces) -> Desired:
    node = replaces.node or item.head
    return Desired(
        address=predecessor_address(item.name),
        kind="predecessor",
        node=node,
        spec=predecessor_spec(inputs.cluster, item.name, replaces),
        depends_on=(member_address(node),),
        gang=item.name,
        position=inputs.position("placements", item.name, "replaces"),
    )


def _endpoint(inputs: Inputs, item: ResolvedPlacement) -> Endpoint:
    listen = item.listen or (listen_address(inputs, item.head),)
    host = next((address for address in listen if address != LOOPBACK), listen[0])
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        host = inputs.resolved.nodes[item.head].address or LOOPBACK
    host = f"[{host}]" if ":" in host else host
    reference = next(iter(item.placement.server.api_keys.values()), None)
    return Endpoint(
        placement=item.name,
        url=f"http://{host}:{item.port}/v1",
        model=item.alias,
        key_reference=str(reference) if reference is not None else "",
        task=item.placement.task,
    )


def _findings(
    inputs: Inputs, item: ResolvedPlacement, topology: Topology, decision: BuildDecision
) -> list[Finding]:
    where, placement = ("placements", item.name), item.placement
    found = readiness.open_api(
        f"server/{item.name}",
        item.listen or (listen_address(inputs, item.head),),
        item.port,
        keys=bool(placement.server.api_keys),
        position=inputs.position(*where, "server"),
    )
    remote = [worker.node for worker in topology.workers if worker.node != item.head]
    if placement.rpc.exposure == "address" and remote:
        found += readiness.open_workers(f"placement {item.name}", inputs.position(*where, "rpc", "exposure"))
    guarded = remote if placement.rpc.exposure == "firewall" else []
    if placement.server.allow_from:
        guarded = [item.head, *guarded]
    for node in dict.fromkeys(guarded):
        if reading := inputs.reading(node):
            found += readiness.needs_packet_filter(node, reading.facts, inputs.position("nodes", node))
    for index, device in enumerate(topology.devices):
        if device.kind is DeviceKind.GPU:
            line = inputs.position(*where, "devices", index)
            found += cards.needs_backend(
                device.reference, device.backend, decision.name, decision.identity["backends"], line
            )
    found += known_issue_findings(
        f"placement {item.name}",
        decision.number,
        placement_situation(inputs, item, topology, decision.number),
        inputs.position(*where),
    )
    return found


def _path(reading: NodeReading, item: Desired) -> str:
    mark = reading.marks.get(item.address)
    return str(mark.spec["path"]) if mark is not None else ""


def _node_findings(inputs: Inputs, resources: Sequence[Desired]) -> list[Finding]:
    """Return what the nodes lack for the resources that should stand on them."""
    found: list[Finding] = []
    for node, reading in inputs.survey.readings.items():
        here = [item for item in resources if item.node == node]
        where = inputs.position("nodes", node)
        if any(item.kind in ("worker", "server") for item in here):
            found += readiness.needs_systemd(node, reading.facts, where)
        for kind in sorted({item.kind for item in here} & {"build", "model"}):
            paths, line = inputs.paths(node), inputs.position("nodes", node, "paths", f"{kind}s")
            programs = kind == "build"
            path = paths.builds if programs else paths.models
            found += readiness.needs_access(node, reading.facts, path=path, programs=programs, position=line)
        # an old file stays for going back, so a new one needs room beside it
        models = [item for item in here if item.kind == "model" and _path(reading, item) != item.spec["path"]]
        if models:
            found += readiness.needs_room(
                node,
                reading.facts,
                path=inputs.paths(node).models,
                wanted=sum(item.spec["size"] for item in models),
                what=", ".join(item.spec["model"] for item in models),
                position=models[0].position,
            )
    return found
