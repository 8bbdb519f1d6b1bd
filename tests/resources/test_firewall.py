from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from hetctl.resources.firewall import PortRule, render_ruleset

RULES = [
    PortRule(20052, ("10.77.0.11",)),
    PortRule(8080, ("192.168.10.0/24", "fd00::/64", "10.77.0.1")),
    PortRule(20053, ()),
]


def test_only_the_named_sources_and_the_node_itself_reach_a_port() -> None:
    lines = [line.strip() for line in render_ruleset("hetctl_den_chat", RULES).splitlines()]
    assert "tcp dport 20052 ip saddr { 10.77.0.11 } accept" in lines
    assert "tcp dport 8080 ip saddr { 192.168.10.0/24, 10.77.0.1 } accept" in lines
    assert "tcp dport 8080 ip6 saddr { fd00::/64 } accept" in lines
    for rule in RULES:
        mine = [line for line in lines if line.startswith(f"tcp dport {rule.port} ")]
        assert mine[0] == f'tcp dport {rule.port} iifname "lo" accept'
        assert mine[-1] == f"tcp dport {rule.port} drop"


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None, reason="nft checks rules only as root, and where it is"
)
def test_nft_takes_the_rules() -> None:
    script = render_ruleset("hetctl_den_chat", RULES)
    done = subprocess.run(
        ["unshare", "--net", "nft", "--check", "--file", "-"],
        input=script,
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
