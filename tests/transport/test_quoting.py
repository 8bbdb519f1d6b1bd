"""What the quoting layer writes, read back by the real readers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hetctl.transport import quoting
from hetctl.transport.quoting import Unquotable

BATCH = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
"""Each example is a process; the lists inside make it hundreds of values."""

ANALYZE = shutil.which("systemd-analyze")
ESCAPE = shutil.which("systemd-escape")
needs_analyze = pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze here")

argument = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
nasty = st.text("ab \"'\\$%;#{}~`!*?[]<>|&()=@:-äß€", max_size=10)
line = nasty | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=10)

HARD_WORDS = [
    "", " ", "a b", "it's", '"', "\\", "\\\\", "a\\", "$HOME", "${HOME}", "$$", "%n", "%%", "%", ";", "\\;",
    "#",     "~", "*", "-x", "'a'", "äöü", "a'b\"c", "{", "=", "A=b", "\\x41", "\\n", "`id`", "$(id)", "!",
]  # fmt: skip


def shells() -> list[str]:
    return [path for name in ("sh", "bash", "dash", "zsh", "busybox") if (path := shutil.which(name))]


def read_by_shell(shell: str, line: str) -> list[str]:
    argv = [shell, "sh"] if shell.endswith("busybox") else [shell]
    script = f"printf '%s\\0' {line}"
    done = subprocess.run([*argv, "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    return [word.decode() for word in done.stdout.split(b"\0")[:-1]]


@pytest.mark.parametrize("shell", shells())
@BATCH
@given(words=st.lists(argument | nasty, min_size=1, max_size=40))
@example(words=HARD_WORDS)
def test_a_shell_reads_the_words_that_were_given(shell: str, words: list[str]) -> None:
    assert read_by_shell(shell, quoting.shell_command(words)) == words


def test_plain_words_stay_readable() -> None:
    assert quoting.shell_command(["ls", "-l", "/usr/lib"]) == "ls -l /usr/lib"
    assert quoting.shell_word("A=b") == "'A=b'", "unquoted, a first word like this would be an assignment"


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_argument_can_hold_is_refused(text: str) -> None:
    with pytest.raises(Unquotable):
        quoting.shell_word(text)


def read_unit(directory: Path, lines: str) -> list[str]:
    """Return the lines systemd's own parser gives for a unit, complaints as an error."""
    unit = directory / "quoted.service"
    unit.write_text(f"[Unit]\nDescription=default\n[Service]\n{lines}\n")
    environment = {**os.environ, "SYSTEMD_LOG_LEVEL": "debug", "SYSTEMD_UNIT_PATH": f"{directory}:"}
    done = subprocess.run(
        [str(ANALYZE), "verify", unit],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=60,
    )
    complaints = [said for said in done.stderr.splitlines() if re.search(r"quoted\.service:\d+:", said)]
    assert not complaints, complaints
    return [shown.lstrip("\t") for shown in done.stdout.split("\n")]


def undo_display(command: str) -> list[str]:
    """Return the words of a command as systemd shows it: some in double quotes, some plain."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^ "]+)', command)
    return [plain or re.sub(r"\\(.)", r"\1", quoted) for quoted, plain in found]


def dumped(lines: list[str], key: str) -> list[str]:
    return [line.removeprefix(key).removeprefix(" ") for line in lines if line.startswith(key)]


@needs_analyze
@BATCH
@given(words=st.lists(line, max_size=30))
@example(words=HARD_WORDS)
def test_systemd_reads_the_command_that_was_given(tmp_path: Path, words: list[str]) -> None:
    written = quoting.unit_command(["/bin/true", *words])
    (shown,) = dumped(read_unit(tmp_path, f"ExecStart={written}"), "Command Line:")
    # systemd shows the command before it expands variables: the doubled $ is still there
    assert undo_display(shown) == ["/bin/true", *(word.replace("$", "$$") for word in words)]


@needs_analyze
@BATCH
@given(values=st.lists(line, min_size=1, max_size=20))
@example(values=HARD_WORDS)
def test_systemd_reads_the_environment_that_was_given(tmp_path: Path, values: list[str]) -> None:
    lines = [f"Environment={quoting.unit_environment(f'V{n}', value)}" for n, value in enumerate(values)]
    shown = dumped(read_unit(tmp_path, "\n".join([*lines, "ExecStart=/bin/true"])), "Environment:")
    assert shown == [f"V{n}={value}" for n, value in enumerate(values)]


@needs_analyze
@BATCH
@given(value=line.filter(lambda text: text == text.strip(" ") and not text.endswith("\\") and text))
def test_systemd_reads_the_value_that_was_given(tmp_path: Path, value: str) -> None:
    lines = read_unit(tmp_path, f"ExecStart=/bin/true\n[Unit]\nDescription={quoting.unit_value(value)}")
    assert dumped(lines, "Description:")[0] == value


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "\x07", "a\x7f", "\ud800", "tab\there"])
def test_control_characters_are_refused_in_unit_files(bad: str) -> None:
    writers = (
        quoting.unit_value,
        quoting.unit_word,
        lambda text: quoting.unit_command(["/bin/x", text]),
        lambda text: quoting.unit_environment("A", text),
        lambda text: quoting.environment_line("A", text),
        lambda text: quoting.unit_name([text]),
        quoting.nft_string,
    )
    for write in writers:
        with pytest.raises(Unquotable):
            write(bad)


@pytest.mark.parametrize("bad", [" a", "a ", "a\\"])
def test_a_plain_value_that_systemd_would_change_is_refused(bad: str) -> None:
    with pytest.raises(Unquotable):
        quoting.unit_value(bad)


@pytest.mark.parametrize("argv", [[], ["true"], ["./true"], ["/opt/$x/true"], [""]])
def test_a_unit_command_needs_an_absolute_path(argv: list[str]) -> None:
    with pytest.raises(Unquotable):
        quoting.unit_command(argv)


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", "a=b", "ä"])
def test_environment_names_are_checked(name: str) -> None:
    for write in (quoting.unit_environment, quoting.environment_line):
        with pytest.raises(Unquotable):
            write(name, "x")


@BATCH
@given(values=st.lists(line, min_size=1, max_size=40))
@example(values=HARD_WORDS)
def test_environment_lines_mean_in_a_shell_what_they_mean_to_systemd(values: list[str]) -> None:
    """systemd's EnvironmentFile unescapes exactly what a shell does between double quotes (env-file.c)."""
    lines = "\n".join(quoting.environment_line(f"V{n}", value) for n, value in enumerate(values))
    names = " ".join(f'"$V{n}"' for n in range(len(values)))
    done = subprocess.run(
        ["/bin/sh", "-c", f"{lines}\nprintf '%s\\0' {names}"], capture_output=True, check=True
    )
    assert [word.decode() for word in done.stdout.split(b"\0")[:-1]] == values


unit_part = st.text("ab-_.:/\\ @ß", min_size=1, max_size=8)


@given(first=st.lists(unit_part, min_size=1, max_size=3), second=st.lists(unit_part, min_size=1, max_size=3))
@example(first=["a-b", "c"], second=["a", "b-c"])
@example(first=["a:b"], second=["a", "b"])
def test_different_parts_give_different_unit_names(first: list[str], second: list[str]) -> None:
    assert (quoting.unit_name(first) == quoting.unit_name(second)) == (first == second)


@pytest.mark.skipif(ESCAPE is None, reason="no systemd-escape here")
@BATCH
@given(part=unit_part.filter(lambda text: not set("-/:") & set(text)))
def test_parts_are_escaped_as_systemd_escapes_them(part: str) -> None:
    done = subprocess.run([str(ESCAPE), "--", part], capture_output=True, text=True, check=True)
    assert quoting.unit_name([part]) == done.stdout.rstrip("\n") + ".service"


def test_unit_names_are_readable_and_bounded() -> None:
    assert quoting.unit_name(["hetctl-den", "worker-chat", "left"]) == "hetctl-den:worker-chat:left.service"
    for parts, suffix in (([], "service"), ([""], "service"), (["a"], "sh"), (["a" * 250], "service")):
        with pytest.raises(Unquotable):
            quoting.unit_name(parts, suffix)


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", 'a"', "ä", "a" * 128, "_a"])
def test_nft_names_are_checked(name: str) -> None:
    with pytest.raises(Unquotable):
        quoting.nft_identifier(name)


@pytest.mark.parametrize("text", ['"', "\\", "ä", "x" * 129])
def test_what_nft_cannot_hold_in_a_string_is_refused(text: str) -> None:
    with pytest.raises(Unquotable):
        quoting.nft_string(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("10.0.0.5", "10.0.0.5"),
        ("10.0.0.5/24", "10.0.0.0/24"),
        ("FE80::1", "fe80::1"),
        ("fd00::/8", "fd00::/8"),
    ],
)
def test_nft_addresses_take_their_usual_form(text: str, written: str) -> None:
    assert quoting.nft_address(text) == written


@pytest.mark.parametrize(
    "text", ["", "10.0.0", "10.0.0.5; flush ruleset", "host", "10.0.0.5/33", "fe80::1%eth0/64"]
)
def test_other_nft_addresses_are_refused(text: str) -> None:
    with pytest.raises(Unquotable):
        quoting.nft_address(text)
