"""The packet filter of a placement on one node as a desired resource. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hetctl.errors import Position
from hetctl.manifest.references import ResolvedPlacement
from hetctl.resources import layout
from hetctl.resources.arrangement import Inputs
from hetctl.resources.base import Desired
from hetctl.resources.firewall import FAMILY, PortRule, render_ruleset
from hetctl.resources.member import member_address
from hetctl.resources.rendering import Guard
from hetctl.resources.unit import render_oneshot


def firewall_resource(
    inputs: Inputs, item: ResolvedPlacement, node: str, rules: Sequence[PortRule]
) -> Desired:
    """Return the packet filter of a placement on a node."""
    table = layout.table_name(inputs.cluster, item.name)
    unit = layout.unit_name(inputs.cluster, item.name, "firewall")
    rules_path = layout.ruleset_path(inputs.cluster, item.name)
    program = inputs.program(node, "nft", "/usr/sbin/nft")
    return Desired(
        address=f"firewall/{item.name}@{node}",
        kind="firewall",
        node=node,
        spec={
            "placement": item.name,
            "table": table,
            "rules_path": rules_path,
            "rules": render_ruleset(table, rules),
            "ports": {str(rule.port): list(rule.sources) for rule in rules},
            "unit": unit,
            "unit_path": layout.unit_path(unit),
            "check": [program, "list", "table", FAMILY, table],
            "unit_text": render_oneshot(
                unit=unit,
                description=f"hetctl {inputs.cluster}: packet filter of placement {item.name}",
                start=[program, "-f", rules_path],
                stop=[program, "delete", "table", FAMILY, table],
                before="network-pre.target",
                follows="nftables.service",
            ),
        },
        depends_on=(member_address(node),),
        position=inputs.position("placements", item.name),
        explain={
            f"ports.{rule.port}": inputs.position(
                "placements",
                item.name,
                *(("server", "allowFrom") if rule.port == item.port else ("rpc", "port")),
            )
            for rule in rules
        },
    )


def _port_line(inputs: Inputs, item: ResolvedPlacement, port: int) -> Position:
    key = ("server", "allowFrom") if port == item.port else ("rpc", "port")
    return inputs.position("placements", item.name, *key)


def guard_of(firewall: Desired | None) -> Guard | None:
    """Return what a process needs to know of the filter that guards it; None where there is none."""
    return Guard(str(firewall.spec["unit"]), firewall.spec["check"]) if firewall is not None else None
