"""The watch of a server: its connections, and the program."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from hetctl.agent import watch_gang
from hetctl.agent.watch_gang import Link, Order, Watch, kernel_form, links, read_order
from tests.agent.watched import ENDED, UNIT, Ended, Links, Server, look, order

SCRIPT = Path(watch_gang.__file__)


def test_a_server_that_works_is_left_alone(server: Server, connection: Links, ended: Ended) -> None:
    watch = Watch(order(server, connection.endpoint))
    assert not look(watch, lambda: bool(ended()), seconds=1)
    assert server.asked == []


def test_an_idle_server_is_not_asked_for_its_slots_again_and_again(server: Server, ended: Ended) -> None:
    watch = Watch(order(server))
    look(watch, seconds=0.5)
    assert server.looked <= 2
    assert ended() == []


# -- connections -----------------------------------------------------------------------------------------


def test_a_connection_that_is_gone_ends_the_server(
    server: Server, connection: Links, ended: Ended, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = Watch(order(server, connection.endpoint))
    watch.look()
    assert ended() == []
    connection.head.close()
    watch.look()
    assert ended() == ENDED
    assert (
        f"restarting {UNIT}: the connection to worker {connection.endpoint} is gone"
        in capsys.readouterr().out
    )


def test_a_connection_that_only_the_worker_closed_ends_the_server_even_if_never_seen_before(
    server: Server, connection: Links, ended: Ended
) -> None:
    connection.worker.close()
    Watch(order(server, connection.endpoint)).look()
    assert ended() == ENDED


def test_a_connection_that_never_was_is_not_missed(server: Server, ended: Ended) -> None:
    """As to a worker without any layer."""
    assert not look(Watch(order(server, "127.0.0.1:1")), lambda: bool(ended()), seconds=0.3)


def test_a_connection_that_is_there_at_the_second_look_is_not_missed(
    server: Server, connection: Links, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_gang, "SECOND_LOOK_SECONDS", 1.0)
    watch = Watch(order(server, connection.endpoint))
    watch.look()
    connection.close()
    timer = threading.Timer(0.3, connection.connect)
    timer.start()
    watch.look()
    timer.join()
    assert ended() == []


def test_while_the_model_loads_connections_come_and_go(
    server: Server, connection: Links, ended: Ended
) -> None:
    watch = Watch(order(server, connection.endpoint))
    watch.look()
    server.health = 503
    connection.head.close()
    watch.look()
    server.health = 200
    watch.look()
    assert ended() == []


def test_a_server_that_sleeps_has_no_connections(server: Server, connection: Links, ended: Ended) -> None:
    watch = Watch(order(server, connection.endpoint, may_sleep=True, quiet=0.0))
    watch.look()
    server.asleep = True
    connection.head.close()
    watch.look()
    watch.look()
    assert ended() == []
    assert server.asked == []
    server.asleep = False
    connection.connect()
    watch.look()
    connection.head.close()
    watch.look()
    assert ended() == ENDED


ROWS = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: {own}:9C40 {worker}:4E54 01 00000040:00000000 {timer}:00000014 {again} 62815 0 4711 1 0 20 4 30 10 -1
   1: {own}:9C41 {worker}:4E54 06 00000000:00000000 03:00001572 00000000     0        0 0 3 0
   2: {own}:9C42 {worker}:4E55 01 00000000:00000000 00:00000000 00000000 62815        0 4712 1 0
   3: {own}:9C43 {worker}:4E54 08 00000000:00000000 00:00000000 00000000 62815        0 4713 1 0
"""


@pytest.mark.parametrize(
    ("timer", "again", "counted"),
    [("01", "00000008", 8), ("00", "00000000", 0), ("02", "00000003", 0), ("04", "0000000A", 0)],
)
def test_connections_are_read_as_the_kernel_writes_them(
    tmp_path: Path, timer: str, again: str, counted: int
) -> None:
    """Timer 1 sends lost data again; 2 is keepalive and 4 asks a worker that is too busy to read."""
    (tmp_path / "net").mkdir()
    own, remote = kernel_form("10.0.0.5:0")[0][:8], kernel_form("10.0.0.6:0")[0][:8]
    (tmp_path / "net/tcp").write_text(ROWS.format(own=own, worker=remote, timer=timer, again=again))
    found = links(kernel_form("10.0.0.6:20052"), str(tmp_path))
    assert found == [
        Link("4711", open=True, retransmissions=counted),
        Link("4713", open=False, retransmissions=0),
    ]


def test_a_worker_that_acknowledges_nothing_ends_the_server_even_while_it_loads(
    server: Server, ended: Ended, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.health = 503
    monkeypatch.setattr(watch_gang, "links", lambda _: [Link("1", open=True, retransmissions=7)])
    watch = Watch(order(server, "10.0.0.6:20052"))
    watch.look()
    assert ended() == []
    monkeypatch.setattr(watch_gang, "links", lambda _: [Link("1", open=True, retransmissions=8)])
    watch.look()
    assert ended() == ENDED
    assert "worker 10.0.0.6:20052 acknowledges nothing any more" in capsys.readouterr().out


def test_each_connection_is_handed_to_the_kernel_once(
    server: Server, connection: Links, ended: Ended, tmp_path: Path, main_process: subprocess.Popen[bytes]
) -> None:
    record = tmp_path / "kept"
    script = tmp_path / "keep_alive.py"
    script.write_text(f"import sys\nopen({str(record)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n")
    watch = Watch(order(server, connection.endpoint, keep_alive=str(script)))
    watch.look()
    watch.look()
    expected = f"--process={main_process.pid} --deadline=0 --connected {connection.endpoint}"
    assert record.read_text().splitlines() == [expected]
    connection.connect()
    watch.look()
    assert record.read_text().splitlines() == [expected, expected]
    assert ended() == []


def test_a_kernel_that_does_not_help_is_told_once(
    server: Server, connection: Links, ended: Ended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "keep_alive.py"
    script.write_text("import sys\nsys.exit('no keepalive: not permitted')\n")
    watch = Watch(order(server, connection.endpoint, keep_alive=str(script)))
    watch.look()
    connection.connect()
    watch.look()
    assert capsys.readouterr().out == "no keepalive: not permitted\n"
    assert ended() == []


# -- the program -----------------------------------------------------------------------------------------


def test_the_script_stands_alone() -> None:
    tree = ast.parse(SCRIPT.read_text())
    names = {name.name for part in ast.walk(tree) if isinstance(part, ast.Import) for name in part.names}
    names |= {part.module or "" for part in ast.walk(tree) if isinstance(part, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)


def test_the_command_line_says_it_all() -> None:
    words = f"--unit {UNIT} --url http://[::1]:8080 --model m --task rerank --worker a:1 --worker b:2"
    given = read_order(
        f"{words} --key-file /k --keep-alive /s --may-sleep --first-answer 7 --stall 512".split()
    )
    assert given == Order(
        unit=UNIT,
        url="http://[::1]:8080",
        model="m",
        task="rerank",
        workers=("a:1", "b:2"),
        key_file="/k",
        keep_alive="/s",
        may_sleep=True,
        first_answer=7.0,
        stall=512.0,
    )


def test_the_program_watches_until_it_is_ended(server: Server, connection: Links, ended: Ended) -> None:
    argv = [sys.executable, "-I", str(SCRIPT), "--unit", UNIT, "--url", server.url, "--model", "chat"]
    with ExitStack() as stack:
        program = stack.enter_context(
            subprocess.Popen(
                [*argv, "--worker", connection.endpoint, "--every", "0.05"], stdout=subprocess.PIPE
            )
        )
        stack.callback(program.kill)
        end = time.monotonic() + 10
        while server.looked == 0:
            assert time.monotonic() < end
            time.sleep(0.02)
        connection.head.close()
        assert program.stdout is not None
        assert b"is gone" in program.stdout.readline()
        while not ended():
            assert time.monotonic() < end
            time.sleep(0.02)
        assert program.poll() is None
    assert ended() == ENDED
