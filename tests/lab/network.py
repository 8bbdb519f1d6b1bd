"""The lab's switch: one bridge in the run's own network namespace, and what can go wrong with a cable."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
from pathlib import Path

from tests.lab.isolation import ROOT
from tests.lab.process import run, start_daemon, wait_until

BRIDGE = "hlbr0"
OPERATOR_ADDRESS = "10.77.0.1"
"""The address of the test run itself on the bridge."""

_NETWORK = "10.77.0.0/24"
_TABLE = "netdev hetctl_lab"
_SIDES = ("ingress", "egress")


def address_of(number: int) -> str:
    """Return the address of host `number` (2 to 254)."""
    return f"10.77.0.{number}"


def namespace_of(number: int) -> str:
    """Return the name of the network namespace of host `number`."""
    return f"lab{number}"


def port_of(number: int) -> str:
    """Return the name of the switch port that host `number` is plugged into."""
    return f"hlv{number}"


def bring_up_bridge() -> None:
    """Make the bridge unless it is there."""
    with (ROOT / "bridge.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _exists(BRIDGE):
            return
        run("ip", "link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
        Path(f"/proc/sys/net/ipv6/conf/{BRIDGE}/disable_ipv6").write_text("1")
        run("ip", "address", "add", f"{OPERATOR_ADDRESS}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        # nothing meant for a host goes anywhere else, whatever routes a test adds
        run("ip", "route", "add", "unreachable", _NETWORK, "metric", "4096")


def connect(number: int) -> None:
    """Make the network namespace of host `number` and plug its `eth0` into the bridge."""
    namespace, port = namespace_of(number), port_of(number)
    run("ip", "netns", "add", namespace)
    # a host that comes back has the card it had, so that its neighbours find it at once
    card = f"02:00:0a:4d:00:{number:02x}"
    run(
        "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "address", card, "netns", namespace
    )
    run("ip", "link", "set", port, "master", BRIDGE, "up")
    inside = f"link set lo up\naddress add {address_of(number)}/24 dev eth0\nlink set eth0 up\n"
    run("ip", "-netns", namespace, "-batch", "-", text=inside)


def connected(number: int) -> bool:
    """Tell whether host `number` has a network namespace."""
    return (Path("/run/netns") / namespace_of(number)).exists()


def disconnect(number: int) -> None:
    """Remove the network namespace of host `number` and its cable, with every fault on it."""
    stop_delay(number)
    _remove_drop_rules(number)
    run("ip", "link", "delete", port_of(number), check=False)  # gone already when the host's side was deleted
    run("ip", "netns", "delete", namespace_of(number), check=False)


def set_link(number: int, *, up: bool) -> None:
    """Plug or unplug the cable of host `number`: both ends see the carrier come and go."""
    run("ip", "link", "set", port_of(number), "up" if up else "down")


def set_loss(number: int, percent: float) -> None:
    """Drop `percent` (0 to 100) of the frames of host `number`, each way, whatever its own firewall says."""
    run("nft", f"add table {_TABLE}")
    _remove_drop_rules(number)
    if percent <= 0:
        return
    rule = "drop" if percent >= 100 else f"numgen random mod 1000 < {round(percent * 10)} drop"
    for side in _SIDES:
        chain = f"{_TABLE} {_chain(number, side)}"
        hook = f'{{ type filter hook {side} device "{port_of(number)}" priority 0; }}'
        run("nft", "-f", "-", text=f"add chain {chain} {hook}\nadd rule {chain} {rule}\n")


def set_rate(number: int, rate: str) -> None:
    """Limit the cable of host `number` to `rate`, such as `100mbit`, each way; `off` lifts the limit."""
    for prefix, device in (((), port_of(number)), (("ip", "netns", "exec", namespace_of(number)), "eth0")):
        run(
            *prefix, "tc", "qdisc", "delete", "dev", device, "root", check=False
        )  # fails when there was no limit
        if rate != "off":
            limit = ("tbf", "rate", rate, "burst", "64kb", "latency", "200ms")
            run(*prefix, "tc", "qdisc", "add", "dev", device, "root", *limit)


def set_delay(number: int, milliseconds: float) -> None:
    """Hold every frame of host `number` for `milliseconds`, each way; 0 takes the delay away.

    A relay in user space does it, since not every kernel has netem.
    """
    stop_delay(number)
    if milliseconds <= 0:
        return
    port, tap = port_of(number), _tap(number)
    # whole frames with checksums, not what the network card is to cut up
    offloads = ("tx", "off", "tso", "off", "gso", "off")
    run("ip", "netns", "exec", namespace_of(number), "ethtool", "-K", "eth0", *offloads)
    run("ip", "link", "set", port, "nomaster", "promisc", "on")
    record = _relay_record(number)
    start_daemon([sys.executable, "-m", "tests.lab.relay", port, tap, str(milliseconds), str(record)])
    wait_until(record.exists, f"the delay relay of host {number} is ready", seconds=10)
    Path(f"/proc/sys/net/ipv6/conf/{tap}/disable_ipv6").write_text("1")
    run("ip", "link", "set", tap, "master", BRIDGE, "up")


def stop_delay(number: int) -> None:
    """End the delay relay of host `number`, if it has one, and plug the cable back into the bridge."""
    record = _relay_record(number)
    if not record.exists():
        return
    os.kill(int(record.read_text()), signal.SIGTERM)
    record.unlink()
    wait_until(lambda: not _exists(_tap(number)), f"the delay relay of host {number} is gone", seconds=10)
    run("ip", "link", "set", port_of(number), "promisc", "off", "master", BRIDGE)


def _exists(interface: str) -> bool:
    return interface in {name for _, name in socket.if_nameindex()}


def _tap(number: int) -> str:
    return f"hlt{number}"


def _relay_record(number: int) -> Path:
    return ROOT / f"relay-{number}.pid"


def _chain(number: int, side: str) -> str:
    return f"host{number}_{side}"


def _remove_drop_rules(number: int) -> None:
    for side in _SIDES:
        run("nft", f"delete chain {_TABLE} {_chain(number, side)}", check=False)  # fails when there was none
