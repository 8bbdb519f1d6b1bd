"""Addresses, routes and reachability of this machine."""

from __future__ import annotations

import ipaddress
import json
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from hetctl.agent.failures import Failure
from hetctl.agent.network import addresses

if TYPE_CHECKING:
    from tests.agent.conftest import Node

IP = shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin")


def test_the_kernel_is_asked_for_all_addresses() -> None:
    found = addresses()
    assert {"interface": "lo", "family": "ipv4", "address": "127.0.0.1", "prefix": 8} in found
    for entry in found:
        assert ipaddress.ip_address(entry["address"]).version == (4 if entry["family"] == "ipv4" else 6)


@pytest.mark.skipif(IP is None, reason="no ip program here")
def test_addresses_are_those_that_ip_shows() -> None:
    shown = json.loads(subprocess.run([str(IP), "-j", "address"], capture_output=True, check=True).stdout)
    expected = {
        (link["ifname"], info["local"], info["prefixlen"])
        for link in shown
        for info in link.get("addr_info", [])
        if info
    }
    assert {(entry["interface"], entry["address"], entry["prefix"]) for entry in addresses()} == expected


def test_the_source_towards_an_address_is_what_the_kernel_would_take(own_node: Node) -> None:
    sources = own_node("routes", {"destinations": ["127.0.0.1", "127.0.0.9", "::1"]})["sources"]
    assert sources["127.0.0.1"] == "127.0.0.1"
    assert sources["127.0.0.9"] == "127.0.0.1"


@pytest.mark.skipif(IP is None, reason="no ip program here")
@pytest.mark.parametrize("address", ["127.0.0.1", "192.0.2.77", "203.0.113.9", "fd00:1234::1", "::1"])
def test_sources_are_those_that_ip_route_get_shows(own_node: Node, address: str) -> None:
    done = subprocess.run([str(IP), "-j", "route", "get", address], capture_output=True, check=False)
    expected = json.loads(done.stdout)[0].get("prefsrc") if done.returncode == 0 else None
    assert own_node("routes", {"destinations": [address]})["sources"][address] == expected


def test_a_name_is_no_address(own_node: Node) -> None:
    for operation, arguments in (
        ("routes", {"destinations": ["atlas"]}),
        ("probe_tcp", {"address": "atlas", "port": 1}),
    ):
        with pytest.raises(Failure) as caught:
            own_node(operation, arguments)
        assert caught.value.kind == "bad-request"


def test_a_port_is_open_closed_or_silent(own_node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        port = server.getsockname()[1]
        assert own_node("probe_tcp", {"address": "127.0.0.1", "port": port}) == {"outcome": "connected"}
    assert own_node("probe_tcp", {"address": "127.0.0.1", "port": port}) == {"outcome": "refused"}


def test_a_full_backlog_times_out(own_node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        held = []
        for _ in range(4):
            client = socket.socket()
            client.settimeout(0)
            client.connect_ex(("127.0.0.1", port))
            held.append(client)
        assert own_node("probe_tcp", {"address": "127.0.0.1", "port": port, "timeout": 0.3}) == {
            "outcome": "timed out"
        }
        for client in held:
            client.close()
