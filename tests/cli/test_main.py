from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from hetctl.cli.main import COMMANDS, Entry, hetctl, run
from hetctl.cli.surroundings import Surroundings
from hetctl.errors import ExitCode, OperationFailed
from hetctl.report.console import Console
from hetctl.resources.provider import Access, Provider
from tests.cli.commands import Stream
from tests.lab.process import wait_until

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "schemas" / "error.schema.json").read_text(encoding="utf-8"))


def call(*arguments: str, load: object = None) -> tuple[int, str, str]:
    def nothing(path: Path, access: Access) -> Provider:
        raise AssertionError((path, access))

    streams = Stream(), Stream(), Stream()
    code = run(arguments, Surroundings(Console(*streams, {}), load or nothing))  # type: ignore[arg-type] # tests pass what they need
    return code, streams[1].getvalue(), streams[2].getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        ("dif",),
        ("diff", "--nonsense"),
        ("diff", "a.yaml", "b.yaml"),
        ("diff", "-o", "xml"),
        ("diff", "no-such-file.yaml"),
        ("apply", "--lock-wait", "soon"),
        ("ask",),
        ("ask", " "),
        ("logs", "-n", "-1"),
        ("logs", "x", "-m", "no-such-file.yaml"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_64(arguments: tuple[str, ...]) -> None:
    code, out, err = call(*arguments)
    assert code == ExitCode.USAGE
    assert "Traceback" not in err
    assert out == ""
    assert err.startswith("error: ")


def test_the_bare_name_prints_help() -> None:
    assert call() == call("--help")
    assert call()[0] == ExitCode.DONE


def test_did_you_mean() -> None:
    assert "did you mean 'diff'?" in call("dif")[2]
    assert "hetctl --help" in call("xyzzy")[2]


def test_a_usage_error_is_json_when_json_was_asked_for() -> None:
    for arguments in (("diff", "--nonsense", "-o", "json"), ("diff", "--output=json", "no-such-file.yaml")):
        code, out, err = call(*arguments)
        document = json.loads(out)
        jsonschema.validate(document, SCHEMA)
        assert (code, document["exitCode"], document["error"]["type"]) == (64, 64, "UsageError")
        assert err == ""


def test_an_error_is_text_or_json_with_its_exit_code(tmp_path: Path) -> None:
    def load(path: Path, access: Access) -> Provider:
        raise OperationFailed("no", where=str(path), why=repr(access), fix="do it")

    manifest = tmp_path / "c.yaml"
    manifest.touch()
    code, out, err = call("diff", str(manifest), load=load)
    assert (code, out) == (ExitCode.APPLIED_IN_PART, "")
    assert err.startswith(f"error: no\n  where: {manifest}\n")
    code, out, err = call("diff", str(manifest), "-o", "json", load=load)
    assert (code, err) == (ExitCode.APPLIED_IN_PART, "")
    assert json.loads(out)["error"]["fix"] == "do it"


def test_a_bug_is_1_with_a_traceback(tmp_path: Path) -> None:
    def load(path: Path, access: Access) -> Provider:
        return {}[path, access]  # type: ignore[index] # meant to fail

    manifest = tmp_path / "c.yaml"
    manifest.touch()
    code, out, err = call("diff", str(manifest), load=load)
    assert (code, out) == (ExitCode.BUG, "")
    assert "Traceback" in err
    assert "This is a bug in hetctl" in err
    code, out, err = call("diff", str(manifest), "-o", "json", load=load)
    assert code == json.loads(out)["exitCode"] == ExitCode.BUG
    assert "Traceback" in err


def test_ctrl_c_is_130(tmp_path: Path) -> None:
    def load(*_: object) -> Provider:
        raise KeyboardInterrupt

    manifest = tmp_path / "c.yaml"
    manifest.touch()
    code, _, err = call("status", str(manifest), load=load)
    assert code == ExitCode.INTERRUPTED
    assert err == "stopped: interrupted\n"


def test_sigterm_is_taken_for_ctrl_c() -> None:
    command = [sys.executable, "-m", "hetctl", "validate", "-"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: _waits_for_input(process.pid), "it reads the manifest")
        process.terminate()
        assert process.wait(20) == ExitCode.INTERRUPTED
        assert process.stderr is not None
        assert process.stderr.read().strip() == b"stopped: interrupted"


def _waits_for_input(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught & 1 << signal.SIGTERM - 1) and "State:\tS" in status


@pytest.mark.parametrize("name", ["diff", "apply", "destroy", "status", "logs", "ask"])
def test_help_leads_with_examples(name: str) -> None:
    assert call(name, "--help")[0] == ExitCode.DONE
    context = hetctl.make_context("hetctl", [name, "--help"], resilient_parsing=True)
    command = hetctl.get_command(context, name)
    assert command is not None
    text = command.get_help(context)
    assert text.index("Examples:") < text.index("Usage:") < text.index("Options:")
    assert f"hetctl {name}" in text


def test_a_command_that_is_not_there_breaks_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "rollback", Entry("rollback_of_the_future", "go back"))
    context = hetctl.make_context("hetctl", ["--help"], resilient_parsing=True)
    assert "rollback" not in hetctl.get_help(context)
    assert call("rollback")[0] == ExitCode.USAGE


def hetctl_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hetctl", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_as_a_process() -> None:
    assert hetctl_process("--version").stdout.startswith("hetctl ")
    assert hetctl_process("dif").returncode == 64


def test_help_is_quick_because_it_loads_little() -> None:
    script = """
import sys
from hetctl.cli.main import run
from hetctl.cli.surroundings import from_process
run(["--help"], from_process())
slow = {"pydantic", "rich", "fabric", "paramiko", "networkx", "jsonschema", "ruamel", "cryptography"}
print(sorted(slow & {name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stderr.strip() == "[]"
    assert min(processor_seconds("--help") for _ in range(5)) < 0.150


def processor_seconds(*arguments: str) -> float:
    """What a command takes on a machine that does nothing else, measured on one that may."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    hetctl_process(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_letters_the_terminal_cannot_show_are_no_bug() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "hetctl", "diff", "größe-☃.yaml"],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 64
    assert b"\\u2603" in ended.stderr


def test_a_reader_that_goes_away_is_no_bug(tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from hetctl.cli.main import run
from hetctl.cli.surroundings import Surroundings
from hetctl.report.console import Console
from tests.cli.commands import bench
from tests.engine.toy import cluster_of, toy
it = bench(cluster_of(*(toy(f"x{{i}}", "a") for i in range(1500))), Path({str(tmp_path)!r}))
sys.stdin.readline()
console = Console(sys.stdin, sys.stdout, sys.stderr, {{}})
sys.exit(run(["diff", str(it.manifest)], Surroundings(console, it.load)))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.close()
    assert process.stderr is not None
    assert process.stderr.read() == "stopped: nobody reads the output any more\n"
    process.stderr.close()
    assert process.wait(60) == ExitCode.INTERRUPTED


INTERRUPTED_APPLY = """
import sys, time
from pathlib import Path
from hetctl.cli.main import run
from hetctl.cli.surroundings import Surroundings
from hetctl.errors import Interrupted
from hetctl.report.console import Console
from hetctl.resources.base import Step
from tests.cli.commands import bench
from tests.engine.toy import cluster_of, toy

def upload(context):
    print("uploading", flush=True)
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        if context.interrupted() and GENTLE:
            raise Interrupted("stopped in the middle; the rest is sent next time")
        time.sleep(0.01)

GENTLE = sys.argv[2] == "gentle"
cluster = cluster_of(toy("x", "a"))
cluster.extra_steps = (
    Step(name="upload model", address="model/m", node="b", run=upload),
    Step(name="start server", address="server/m", node="b", run=upload, needs=frozenset({"upload model"})),
)
it = bench(cluster, Path(sys.argv[1]))
console = Console(sys.stdin, sys.stdout, sys.stderr, {})
code = run(["apply", "--yes", str(it.manifest)], Surroundings(console, it.load))
assert all(node.holder == "" for node in cluster.world.nodes.values())
sys.exit(code)
"""


@pytest.mark.parametrize(("how", "signals"), [("gentle", 1), ("deaf", 2)])
def test_ctrl_c_while_applying(tmp_path: Path, how: str, signals: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_APPLY, str(tmp_path), how],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        if line == "uploading\n":
            break
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
        for line in process.stderr:
            if line.startswith("stopping"):
                break
    out, err = process.communicate(timeout=30)
    assert process.returncode == ExitCode.INTERRUPTED, err
    assert "stopped      upload model" in out
    assert "not reached  start server" in out
    assert "Next: hetctl apply" in out
