"""The lab by hand: `python -m tests.lab`."""

from __future__ import annotations

import argparse
import sys

from tests.lab import isolation
from tests.lab.host import Host, recorded_hosts
from tests.lab.hosts import Lab, bring_up
from tests.lab.process import LabError

_PLAIN_FAULTS = {
    "start": "boot it again with the disk it has",
    "stop": "shut it down cleanly",
    "kill": "cut its power",
    "freeze": "hang it",
    "thaw": "end freeze",
    "cut": "swallow every packet from and to it",
    "heal": "take away every fault of its network",
    "unplug": "pull its cable",
    "plug": "end unplug",
}
_VALUE_FAULTS = {
    "loss": ("PERCENT", "lose packets, each way; 0 for none"),
    "rate": ("RATE", "limit its cable, such as 100mbit; or off"),
    "delay": ("MILLISECONDS", "delay every packet, each way; 0 for none"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except LabError as error:
        sys.stderr.write(f"lab: {error}\n")
        return 1


def _run(options: argparse.Namespace) -> int:
    if options.command == "run":
        return isolation.run_isolated(options.argv)
    if options.command == "_inside":
        return isolation.inside(options.argv)
    isolation.require_isolation()
    if options.command == "up":
        names = (
            options.names.split(",") if options.names else [f"h{index + 1}" for index in range(options.count)]
        )
        lab = bring_up(names, lower=options.lower, disk=options.disk)
        configuration = isolation.ROOT / "ssh_config"
        configuration.write_text(lab.ssh_config())
        sys.stdout.write(f"{len(lab)} hosts are up: ssh -F {configuration} {lab.hosts[0].name}\n")
    elif options.command == "down":
        Lab(tuple(recorded_hosts())).down()
    elif options.command == "status":
        for host in recorded_hosts():
            sys.stdout.write(f"{host.name} {host.address} {'up' if host.up else 'down'}\n")
    elif options.command == "exec":
        _find(options.host).replace_by(options.argv)
    elif options.command in {"loss", "delay"}:
        getattr(_find(options.host), options.command)(float(options.value))
    elif options.command == "rate":
        _find(options.host).rate(options.value)
    else:
        getattr(_find(options.host), options.command)()
    return 0


def _find(name: str) -> Host:
    for host in recorded_hosts():
        if host.name == name:
            return host
    raise LabError(f"there is no host {name}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab", description="Throw-away hosts on one machine."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("run", "run a command isolated; all else works only inside of it"),
        ("_inside", argparse.SUPPRESS),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("argv", nargs=argparse.REMAINDER)
    up = commands.add_parser("up", help="boot hosts and wait until they are ready")
    up.add_argument("-n", "--count", type=int, default=3)
    up.add_argument("--names", help="instead of a count: names separated by commas")
    up.add_argument(
        "--lower", default="", help="/ for hosts that see this machine's programs, compilers included"
    )
    up.add_argument("--disk", default="2g", help="size of each disk (default: %(default)s)")
    commands.add_parser("down", help="remove every host")
    commands.add_parser("status", help="list the hosts")
    for name, text in _PLAIN_FAULTS.items():
        commands.add_parser(name, help=text).add_argument("host")
    for name, (value, text) in _VALUE_FAULTS.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("host")
        command.add_argument("value", metavar=value)
    execute = commands.add_parser("exec", help="run a program in a host without SSH")
    execute.add_argument("host")
    execute.add_argument("argv", nargs=argparse.REMAINDER)
    return parser
