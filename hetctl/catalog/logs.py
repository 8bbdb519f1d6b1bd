"""What llama.cpp's programs write to their log, and what it means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from hetctl.catalog.table import Builds, Origin, builds_of, origin_of, read_rows

MIB = 2**20


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line worth reading.

    Arguments:
        event: `device`, `offloaded`, `model`, `kv`, `compute`, `layer`, `loaded`, `listening`, or
            `listed` in the output of `--list-devices`.
        level: How talkative the server must be to write it; see `verbosity`.
        pattern: Found anywhere in the line.
        example: A real line.
    """

    event: str
    level: str
    pattern: re.Pattern[str]
    example: str
    builds: Builds
    origin: Origin


@dataclass(frozen=True, slots=True)
class LogLevel:
    """The number that `-lv` needs to show lines of `level`."""

    level: str
    verbosity: int
    builds: Builds
    origin: Origin


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A line that says why a program ended. `what` may name groups of `pattern` in braces."""

    program: str
    pattern: re.Pattern[str]
    what: str
    why: str
    fix: str
    example: str
    builds: Builds
    origin: Origin


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that the log explains.

    Arguments:
        what: One sentence.
        why: One sentence.
        fix: One sentence.
        line: The line it was read from.
    """

    what: str
    why: str
    fix: str
    line: str


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """A device as `--list-devices` shows it.

    Arguments:
        name: Such as `CUDA0` or `RPC1`.
        description: The card's name; for a worker's device host:port.
        total: Bytes, rounded to MiB.
        free: Bytes, rounded to MiB.
    """

    name: str
    description: str
    total: int
    free: int


@dataclass(slots=True)
class BufferSizes:
    """Bytes a running server put into one buffer type, as its log rounds them (to 0.01 MiB)."""

    model: int = 0
    kv: int = 0
    compute: int = 0


@dataclass(frozen=True, slots=True)
class ServerLog:
    """What the start of a server's log says.

    Arguments:
        buffers: Sizes by buffer name: `CUDA0`, `CPU_Mapped`, `RPC0[10.0.0.7:20052]`.
        devices: Names of the devices in use, in order.
        offloaded: How many layers, the output layer counted, lie on devices; None when it was not said.
        layers: Device of each layer, the output layer last; only at level `debug`.
        loaded: True once the model is loaded.
        urls: Where it listens; empty before.
    """

    buffers: dict[str, BufferSizes] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    offloaded: int | None = None
    layers: dict[int, str] = field(default_factory=dict)
    loaded: bool = False
    urls: tuple[str, ...] = ()


@cache
def log_lines() -> tuple[LogLine, ...]:
    """Return every row about log lines."""
    return tuple(
        LogLine(
            row["event"],
            row["level"],
            re.compile(row["pattern"]),
            row["example"],
            builds_of(row),
            origin_of(row),
        )
        for row in read_rows("llama_log_lines.json")
    )


@cache
def log_levels() -> tuple[LogLevel, ...]:
    """Return every row about log levels."""
    return tuple(
        LogLevel(row["level"], row["verbosity"], builds_of(row), origin_of(row))
        for row in read_rows("llama_log_levels.json")
    )


@cache
def known_failures() -> tuple[KnownFailure, ...]:
    """Return every row about failures."""
    return tuple(
        KnownFailure(
            row["program"],
            re.compile(row["pattern"]),
            row["what"],
            row["why"],
            row["fix"],
            row["example"],
            builds_of(row),
            origin_of(row),
        )
        for row in read_rows("llama_failures.json")
    )


def verbosity(build: int, level: str = "detail") -> int:
    """Return the `-lv` number at which `build` writes lines of `level`: `info`, `detail` or `debug`.

    Buffer sizes are `detail`: most builds do not write them by default.
    """
    return next(row.verbosity for row in log_levels() if row.level == level and build in row.builds)


def read_server_log(lines: Iterable[str], build: int) -> ServerLog:
    """Read the log lines of one start of a server.

    Lines for one buffer are added: a model with sliding-window attention writes two for its KV cache, and a
    draft model writes its own for the same device.
    """
    rows = [row for row in log_lines() if build in row.builds]
    buffers: dict[str, BufferSizes] = {}
    devices: list[str] = []
    layers: dict[int, str] = {}
    urls: list[str] = []
    offloaded, loaded = None, False
    for line in lines:
        for row in rows:
            if not (found := row.pattern.search(line.rstrip())):
                continue
            match row.event:
                case "model" | "kv" | "compute":
                    sizes = buffers.setdefault(found["buffer"], BufferSizes())
                    setattr(sizes, row.event, getattr(sizes, row.event) + round(float(found["mib"]) * MIB))
                case "device":
                    devices.append(found["device"])
                case "offloaded":
                    offloaded = int(found["count"])
                case "layer":
                    layers[int(found["layer"])] = found["device"]
                case "loaded":
                    loaded = True
                case "listening":
                    urls.append(found["url"])
    return ServerLog(buffers, tuple(devices), offloaded, layers, loaded, tuple(urls))


def read_device_list(text: str, build: int) -> tuple[ListedDevice, ...]:
    """Return what `llama-server --list-devices` wrote to standard output; the CPU is never listed."""
    [row] = [row for row in log_lines() if row.event == "listed" and build in row.builds]
    return tuple(
        ListedDevice(
            found["device"], found["description"], int(found["total"]) * MIB, int(found["free"]) * MIB
        )
        for line in text.splitlines()
        if (found := row.pattern.search(line))
    )


def rpc_buffer(endpoint: str, index: int) -> str:
    """Return the buffer name of device `index` of the worker at `endpoint` (host:port).

    The number counts within the worker, unlike the one in the device name `RPC3`: two workers with one device
    each have buffers `RPC0[...]` twice (tried at b11434).
    """
    return f"RPC{index}[{endpoint}]"


def explain_failure(lines: Iterable[str], program: str = "llama-server") -> Failure | None:
    """Return what the first line that explains a failure means; None when no line does."""
    for line in lines:
        for row in known_failures():
            if row.program == program and (found := row.pattern.search(line.rstrip())):
                return Failure(row.what.format(**found.groupdict()), row.why, row.fix, line.strip())
    return None
