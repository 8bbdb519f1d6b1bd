from pathlib import Path

import pytest

from hetctl.errors import Problem
from hetctl.manifest import load
from hetctl.manifest.cautions import cautions
from hetctl.manifest.codes import EXAMPLE_BASE
from hetctl.manifest.references import resolve


def _cautions(tmp_path: Path, chat: str, *, files: bool = True) -> list[Problem]:
    for name in ("llama.cpp.tar.gz", "gemma.gguf") if files else ():
        (tmp_path / name).write_bytes(b"GGUF" if name.endswith(".gguf") else b"")
    file = tmp_path / "cluster.yaml"
    file.write_text(EXAMPLE_BASE.replace("[atlas/fast, bench/left]}", f"[atlas/fast, bench/left], {chat}}}"))
    return list(cautions(resolve(load([file]))))


def _told(tmp_path: Path, chat: str) -> list[str]:
    """Return the codes but that of the card, which the example has."""
    return [caution.code for caution in _cautions(tmp_path, chat) if caution.code != "W305"]


@pytest.mark.parametrize(
    ("chat", "codes"),
    [
        ("server: {apiKeys: {me: {env: KEY}}}", []),
        ("server: {listen: [127.0.0.1, '::1']}", []),
        ("server: {}", ["W302"]),
        ("server: {listen: [127.0.0.1, 192.168.10.5]}", ["W302"]),
        ("server: {allowFrom: [192.168.10.0/24]}", ["W302"]),
        ("server: {listen: [127.0.0.1]}, rpc: {exposure: address}", ["W303"]),
        (
            "server: {listen: [127.0.0.1]}, nCpuMoe: 3, layers: {atlas/fast: 1, bench/left: 1, cpu: 1}",
            ["W304"],
        ),
        ("server: {listen: [127.0.0.1]}, nCpuMoe: 3, layers: {atlas/fast: 1, bench/left: 1}", []),
        ("server: {apiKeys: {me: {file: gone}}}", ["W301"]),
    ],
)
def test_what_is_worth_a_warning(tmp_path: Path, chat: str, codes: list[str]) -> None:
    assert _told(tmp_path, chat) == codes


def test_missing_files_are_named_where_they_are_declared(tmp_path: Path) -> None:
    found = _cautions(tmp_path, "server: {listen: [127.0.0.1]}", files=False)
    assert [(each.code, each.position.line) for each in found] == [("W301", 8), ("W301", 10), ("W305", 12)]
    assert str(tmp_path / "gemma.gguf") in found[1].message


def test_a_card_is_named_where_it_is_used(tmp_path: Path) -> None:
    (found,) = _cautions(tmp_path, "server: {listen: [127.0.0.1]}")
    assert (found.code, found.position.line) == ("W305", 12)
    assert "atlas/fast" in found.message


def test_a_model_of_another_format(tmp_path: Path) -> None:
    (tmp_path / "gemma.gguf").write_bytes(b"PK")
    file = tmp_path / "cluster.yaml"
    (tmp_path / "llama.cpp.tar.gz").touch()
    file.write_text(
        EXAMPLE_BASE.replace("atlas/fast, ", "").replace(
            "[bench/left]}", "[bench/left], server: {listen: [127.0.0.1]}}"
        )
    )
    (found,) = cautions(resolve(load([file])))
    assert (found.code, found.position.line) == ("W306", 10)
