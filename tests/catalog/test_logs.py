"""What is read out of real logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetctl.catalog.llama import newest_build, oldest_build
from hetctl.catalog.logs import (
    MIB,
    BufferSizes,
    KnownFailure,
    ListedDevice,
    LogLine,
    explain_failure,
    known_failures,
    log_lines,
    read_device_list,
    read_server_log,
    rpc_buffer,
    verbosity,
)

DATA = Path(__file__).parent / "data"
FIRST, SECOND = rpc_buffer("127.0.0.1:20052", 0), rpc_buffer("127.0.0.1:20053", 0)


def lines(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()


def test_a_start_with_two_workers() -> None:
    log = read_server_log(lines("server-start-b11434.log"), 11434)
    assert log.devices == ("RPC0", "RPC1")
    assert log.offloaded == 19
    assert log.loaded
    assert log.urls == ("http://127.0.0.1:20080",)
    sizes = {
        name: tuple(size / MIB for size in (buffer.model, buffer.kv, buffer.compute))
        for name, buffer in log.buffers.items()
    }
    assert sizes == {
        "CPU_Mapped": (170, 0, 0),
        FIRST: pytest.approx((35.82, 26, 52.84), abs=1e-4),
        SECOND: pytest.approx((199.34, 28, 41.57), abs=1e-4),
        "CPU": pytest.approx((0, 0, 32.61), abs=1e-4),
    }


def test_a_start_that_names_every_layer() -> None:
    log = read_server_log(lines("server-start-debug-b11434.log"), 11434)
    assert log.layers == dict.fromkeys(range(4), "CPU") | {
        layer: "RPC0" if layer < 12 else "RPC1" for layer in range(4, 19)
    }
    assert log.buffers["CPU"].kv == 4 * MIB


def test_a_start_that_says_nothing() -> None:
    log = read_server_log(["0.01.592.823 I srv  llama_server: loading"], 11434)
    assert (log.buffers, log.devices, log.offloaded, log.loaded, log.urls) == ({}, (), None, False, ())


def test_device_list() -> None:
    text = (DATA / "list-devices-b11434.txt").read_text(encoding="utf-8")
    size = 24105 * MIB
    assert read_device_list(text, 11434) == (
        ListedDevice("RPC0", "127.0.0.1:20052", size, size),
        ListedDevice("RPC1", "127.0.0.1:20053", size, size),
    )
    assert read_device_list("Available devices:\n  (none)\n", 11434) == ()
    named = read_device_list("  CUDA0: NVIDIA RTX (x) 3090 (24135 MiB, 23841 MiB free)\n", 11434)
    assert named[0].description == "NVIDIA RTX (x) 3090"


@pytest.mark.parametrize("row", log_lines(), ids=lambda row: row.event)
def test_every_line_matches_its_example(row: LogLine) -> None:
    assert row.pattern.search(row.example)


@pytest.mark.parametrize("row", known_failures(), ids=lambda row: row.what)
def test_every_failure_is_explained_by_its_example(row: KnownFailure) -> None:
    failure = explain_failure(["some line", row.example], row.program)
    assert failure is not None
    assert (failure.why, failure.fix) == (row.why, row.fix)
    assert "{" not in failure.what


def test_a_healthy_log_explains_nothing() -> None:
    assert explain_failure(lines("server-start-b11434.log")) is None


@pytest.mark.parametrize(
    ("build", "level", "number"),
    [
        (9095, "detail", 3),
        (9246, "detail", 4),
        (11434, "detail", 4),
        (9095, "debug", 4),
        (11434, "debug", 5),
        (11434, "info", 3),
    ],
)
def test_how_talkative_a_server_must_be(build: int, level: str, number: int) -> None:
    assert verbosity(build, level) == number


@pytest.mark.parametrize("build", [oldest_build(), 9096, newest_build(), 20000])
def test_every_build_has_every_event_and_level(build: int) -> None:
    events = [row.event for row in log_lines() if build in row.builds]
    assert sorted(events) == sorted({row.event for row in log_lines()})
    assert [verbosity(build, row.level) for row in log_lines()]


def test_sizes_start_at_nothing() -> None:
    assert BufferSizes() == BufferSizes(0, 0, 0)
