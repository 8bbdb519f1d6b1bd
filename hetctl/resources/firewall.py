"""Kind `firewall`: who may reach a placement's ports on one node.

An nftables table of our own, loaded at boot before the network comes up. A packet that our table accepts is
still judged by the node's other tables; one that it drops is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetctl.resources.base import Change, Cost, Desired, Mark, Observed, Reason
from hetctl.resources.comparison import change_for, removal
from hetctl.resources.obstacles import unless_in_the_way
from hetctl.resources.unit import file_drift, unit_drift
from hetctl.transport import quoting
from hetctl.transport.base import Json

FAMILY = "inet"


@dataclass(frozen=True, slots=True)
class PortRule:
    """Which sources may reach one port.

    Arguments:
        port: 1 to 65535.
        sources: IPv4 or IPv6 addresses or networks.
    """

    port: int
    sources: tuple[str, ...]


def render_ruleset(table: str, rules: Sequence[PortRule]) -> str:
    """Return an nft script that replaces the table in one transaction.

    Arguments:
        table: Its name.
        rules: One for each port; processes of the node itself may always connect, so that the node's own
            checks work.
    """
    name = quoting.nft_identifier(table)
    lines = [
        f"table {FAMILY} {name}",
        f"delete table {FAMILY} {name}",
        f"table {FAMILY} {name} {{",
        "\tchain input {",
        "\t\ttype filter hook input priority filter - 5; policy accept;",
    ]
    for rule in rules:
        lines.append(f'\t\ttcp dport {rule.port} iifname "lo" accept')
        for family, sources in (
            ("ip", _family(rule.sources, ipv6=False)),
            ("ip6", _family(rule.sources, ipv6=True)),
        ):
            if sources:
                lines.append(f"\t\ttcp dport {rule.port} {family} saddr {{ {', '.join(sources)} }} accept")
        lines.append(f"\t\ttcp dport {rule.port} drop")
    return "\n".join([*lines, "\t}", "}", ""])


def _family(sources: Sequence[str], *, ipv6: bool) -> list[str]:
    return [quoting.nft_address(source) for source in sources if (":" in source) == ipv6]


class FirewallKind:
    """A rule file, the unit that loads it and the table in the kernel."""

    name = "firewall"

    def objects(self, desired: Desired) -> Sequence[Mapping[str, Json]]:
        """Return the table, the files and the unit."""
        return observed_objects(desired.spec, {})

    def compare(self, desired: Desired, observed: Observed) -> Change:
        """Return what it takes to have these rules in force, now and after a boot."""
        change = change_for(
            desired,
            observed,
            drift=_drift(observed),
            cost=Cost.NOTHING,
            rendered=("rules", "unit_text", "check"),
            details=tuple(
                f"port {port}: only {', '.join(sources) or 'this node'}"
                for port, sources in sorted(desired.spec["ports"].items())
            ),
        )
        return unless_in_the_way(change, desired, observed)

    def remove(self, mark: Mark, observed: Observed) -> Change:
        """Return the removal of table, unit and file."""
        return removal(mark, observed)


def observed_objects(
    spec: Mapping[str, Json], made: Mapping[str, Mapping[str, Json]]
) -> list[Mapping[str, Json]]:
    """Return the objects of a firewall for the agent's `observe`.

    Arguments:
        spec: Of the resource.
        made: What the agent reported when it wrote them: file states by path and the table's digest under
            `table`; empty before they were made.
    """
    return [
        {
            "type": "nft_table",
            "family": FAMILY,
            "name": spec["table"],
            "sha256": (made.get("table") or {}).get("sha256", ""),
        },
        {
            "type": "file",
            "path": spec["rules_path"],
            "expect": dict(made.get(spec["rules_path"]) or {}),
        },
        {
            "type": "file",
            "path": spec["unit_path"],
            "expect": dict(made.get(spec["unit_path"]) or {}),
            **({} if made else {"first_line": True}),
        },
        {"type": "unit", "name": spec["unit"]},
    ]


def _drift(observed: Observed) -> list[Reason]:
    if observed.mark is None or observed.unknown:
        return []
    reasons: list[Reason] = []
    for item, state in zip(observed.mark.objects, observed.states, strict=False):
        match item["type"]:
            case "nft_table" if not state.get("exists"):
                reasons.append(Reason(f"nftables table {item['name']} is missing", drift=True))
            case "nft_table" if state.get("sha256") != item.get("sha256"):
                reasons.append(Reason(f"nftables table {item['name']} was changed", drift=True))
            case "file":
                reasons += file_drift(item["path"], state, item.get("expect") or {})
            case "unit":
                reasons += unit_drift(item["name"], state)
    return reasons
