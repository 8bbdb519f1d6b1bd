"""The plan of the design's sample, as data."""

from __future__ import annotations

from dataclasses import replace

from hetctl.errors import Position
from hetctl.report.figures import GIB
from hetctl.resources.base import Action, Change, Cost, Mark, Reason
from hetctl.resources.provider import (
    DeviceRow,
    GangSummary,
    Gate,
    Plan,
    Purpose,
)
from hetctl.rules.finding import Finding, Severity

GROWN = Reason("context 16384 -> 32768", Position("cluster.yaml", 31, 14))

SAMPLE = Plan(
    cluster="den",
    manifest_digest="0" * 64,
    purpose=Purpose.APPLY,
    changes=(
        Change("build/main@atlas", "build", "atlas", Action.NONE),
        Change(
            "server/chat", "server", "atlas", Action.UPDATE, gang="chat", cost=Cost.MODEL_RELOAD,
            reasons=(GROWN,), details=("-c 32768 -> 65536 (2 slots x 32768)",),
        ),
        Change(
            "worker/chat@pascal", "worker", "pascal", Action.RESTART, gang="chat", cost=Cost.SERVICE_RESTART,
            reasons=(Reason("because the head restarts"),),
        ),
    ),
    nodes_read=("atlas", "pascal"),
    gangs=(
        GangSummary(
            placement="chat",
            action=Action.UPDATE,
            position=Position("cluster.yaml", 28, 3),
            reasons=(GROWN,),
            outage="model reload, RPC cache warm",
            cost=Cost.MODEL_RELOAD,
            seconds=71.3,
            rows=(
                DeviceRow("atlas/fast", "31", int(13.5 * GIB), GIB, int(0.1 * GIB), int(1.3 * GIB)),
                DeviceRow("pascal/old", "5+out", *(int(size * GIB) for size in (8.6, 0.2, 0.4, 1.8))),
            ),
        ),
    ),
)  # fmt: skip

OLD = Mark("den", "model/old", "model", "atlas", {}, "", 3)

TROUBLE = replace(
    SAMPLE,
    changes=(
        *SAMPLE.changes,
        Change("model/gemma@atlas", "model", "atlas", Action.CREATE, reasons=(Reason("not there yet"),),
               details=("278 MiB from this machine",)),
        Change("worker/embed@bench", "worker", "bench", Action.UNKNOWN, gang="embed",
               reasons=(Reason("node bench could not be read"),)),
        Change("server/embed", "server", "atlas", Action.UPDATE, gang="embed", cost=Cost.MODEL_RELOAD,
               reasons=(Reason("unit file was edited", drift=True),)),
        Change("server/rank", "server", "pascal", Action.BLOCKED, gang="rank",
               reasons=(Reason("port 8081 is held by nginx (pid 812)"),), fix="systemctl stop nginx"),
        Change("model/old@atlas", "model", "atlas", Action.REMOVE, mark=OLD,
               reasons=(Reason("not declared any more"),)),
        Change("node/attic", "node", "attic", Action.FORGET,
               reasons=(Reason("could not be read, so it stays recorded: timed out"),)),
    ),
    nodes_unknown={"bench": "no connection to 192.168.10.9:22: timed out"},
    waits={("server/embed", "atlas"): "node bench"},
    gates=(
        Gate("vm/pascal", "atlas", "bind 0000:02:00.0 to vfio-pci: reboot atlas", "sudo systemctl reboot",
             ("worker/chat@pascal",)),
    ),
    findings=(
        Finding("PCIE_DEGRADED", Severity.WARNING, "atlas/fast", "the card runs at x4",
                "lspci says width x4, capable of x16", "move it to another slot",
                Position("cluster.yaml", 12, 7)),
        Finding("NO_DRIVER", Severity.ERROR, "pascal/old", "no driver for this card"),
        Finding("SHARED_SWITCH", Severity.INFO, "atlas", "both cards share one switch"),
    ),
)  # fmt: skip
