from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from hetctl.cli.main import COMMANDS, hetctl
from hetctl.errors import EXIT_PRECEDENCE, ExitCode
from hetctl.report.schemas import SCHEMAS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    assert f"\n## {name}\n" in TEXT
    command = hetctl.get_command(click.Context(hetctl), name)
    assert command is not None
    for parameter in command.params:
        for option in parameter.opts if isinstance(parameter, click.Option) else []:
            assert re.search(rf"`[^`]*{re.escape(option)}\b", TEXT), option


def test_every_exit_code_is_documented_in_order_of_precedence() -> None:
    table = [int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, flags=re.MULTILINE)]
    assert table == sorted(int(code) for code in ExitCode)
    order = ", ".join(str(int(code)) for code in EXIT_PRECEDENCE)
    assert order in TEXT.replace("\n", " ")


def test_every_schema_is_linked_and_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert {f"../schemas/{name}.schema.json" for name in SCHEMAS} <= set(links)
    for link in links:
        assert (ROOT / "docs" / link).exists(), link


def test_the_sample_is_what_is_printed() -> None:
    golden = (ROOT / "tests" / "report" / "golden" / "plan.txt").read_text(encoding="utf-8")
    assert golden in TEXT
