from pathlib import Path

import pytest

from hetctl.errors import ManifestInvalid, Problem
from hetctl.manifest import load, load_text
from hetctl.manifest.cautions import cautions
from hetctl.manifest.codes import EXAMPLE_BASE
from hetctl.manifest.problem_list import PROBLEMS_LIMIT
from hetctl.manifest.references import resolve

HEAD = "apiVersion: hetctl/v1\nkind: Cluster\n"


def _problems(text: str) -> list[Problem]:
    with pytest.raises(ManifestInvalid) as caught:
        load_text(text)
    return list(caught.value.problems)


def _codes(text: str) -> list[str]:
    return [problem.code for problem in _problems(text)]


def test_ten_lines_are_a_manifest() -> None:
    example = Path(__file__).parents[2] / "examples" / "small.yaml"
    lines = [line for line in example.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 10
    assert load([example]).placements["chat"].context == 8192
    # nothing to warn of but that its files are not here
    assert {caution.code for caution in cautions(resolve(load([example])))} == {"W301"}


def test_the_other_examples() -> None:
    examples = Path(__file__).parents[2] / "examples"
    load([examples / "three-hosts.yaml"])
    with pytest.raises(ManifestInvalid) as caught:
        load([examples / "story.yaml"])
    assert {problem.code[:2] for problem in caught.value.problems} == {"E9"}, "only what is not there yet"


def test_every_example_tells_editors_where_the_schema_is() -> None:
    examples = Path(__file__).parents[2] / "examples"
    for example in examples.glob("*.yaml"):
        first = example.read_text().partition("\n")[0]
        assert (examples / first.removeprefix("# yaml-language-server: $schema=")).is_file()


def test_defaults() -> None:
    placement = load_text(EXAMPLE_BASE).placements["chat"]
    assert (placement.slots, placement.context, placement.flash_attention) == (1, 8192, "on")
    assert (placement.kv_cache.k, placement.kv_cache.v) == ("f16", "f16")
    assert (placement.server.port, placement.layers, placement.task) == (8080, "auto", "chat")
    assert load_text(EXAMPLE_BASE).nodes["atlas"].gpus["fast"].reserve == 2**30


def test_units_become_numbers() -> None:
    text = EXAMPLE_BASE.replace("RTX 5060 Ti", "RTX 5060 Ti, memory: 11.5GiB, reserve: 512MiB")
    text = text.replace("[atlas/fast, bench/left]", "[atlas/fast], cacheRam: 1.5GiB, ready: {within: 10m}")
    cluster = load_text(text)
    gpu, chat = cluster.nodes["atlas"].gpus["fast"], cluster.placements["chat"]
    assert (gpu.memory, gpu.reserve) == (23 * 2**29, 2**29)
    assert (chat.cache_ram, chat.ready.within) == (3 * 2**29, 600)


def test_values_cannot_be_changed() -> None:
    cluster = load_text(EXAMPLE_BASE)
    with pytest.raises(ValueError, match="frozen"):
        cluster.placements["chat"].context = 1  # type: ignore[misc] # the point


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        # what is left out for its shape is not missed a second time by what refers to it
        (("address: 192.168.10.5", "adress: 192.168.10.5"), ["E101"]),
        (("version: b11434", "version: 11434"), ["E103"]),
        (("source: gemma.gguf", "sauce: gemma.gguf"), ["E102", "E101"]),
        (("threads: 4", "threads: none"), ["E103"]),
        (("nodes:", "nodes: {}\nx-nodes:"), ["E204", "E204"]),
        (("kind: Cluster", "kind: Cluster\nssh: 3"), ["E103"]),
        (("name: den", "name: Den"), ["E105"]),
    ],
)
def test_one_mistake_is_one_problem(change: tuple[str, str], codes: list[str]) -> None:
    assert _codes(EXAMPLE_BASE.replace(*change)) == codes


def test_all_stages_report_at_once() -> None:
    text = EXAMPLE_BASE.replace("gemma, devices", "gema, devices").replace(
        "name: den", "name: den\nname: attic"
    )
    text += "  code: {model: gemma, devices: [atlas/fast], contxt: 1, mmproj: m.gguf, state: stopped}\n"
    assert _codes(text) == ["E007", "E207", "E101", "E920"]


def test_unreadable_parts_keep_cross_checks_quiet(tmp_path: Path) -> None:
    good, bad = tmp_path / "a.yaml", tmp_path / "b.yaml"
    good.write_text(HEAD + "name: den\nplacements: {chat: {model: gemma, devices: [atlas/cpu]}}\nnods: {}\n")
    bad.write_text("nodes: [\n")
    with pytest.raises(ManifestInvalid) as caught:
        load([tmp_path])
    assert [problem.code for problem in caught.value.problems] == ["E101", "E005"]


def test_problems_come_in_file_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").write_text(HEAD + f"x: 1\nname: den-{name}\ny: 1\n")
    with pytest.raises(ManifestInvalid) as caught:
        load([tmp_path / "b.yaml", tmp_path / "a.yaml"])
    found = [(Path(p.position.file).name, p.position.line, p.code) for p in caught.value.problems]
    assert found == [
        ("b.yaml", 3, "E101"), ("b.yaml", 5, "E101"),
        ("a.yaml", 3, "E101"), ("a.yaml", 4, "E202"), ("a.yaml", 5, "E101"),
    ]  # fmt: skip


def test_the_second_declaration_points_at_the_first(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.yaml").write_text(HEAD + "models: {gemma: {source: g.gguf}}\n")
    with pytest.raises(ManifestInvalid) as caught:
        load([tmp_path])
    twice = next(problem for problem in caught.value.problems if problem.code == "E201")
    assert twice.position.file.endswith("b.yaml")
    assert f"{tmp_path}/a.yaml:3:10" in twice.message


def test_a_mistake_in_an_anchor_is_one_problem() -> None:
    text = HEAD + "name: den\nx-d: &d {contxt: 1}\nplacements:\n"
    text += "".join(f"  p{n}: {{<<: *d, model: gemma}}\n" for n in range(3))
    problems = _problems(text)
    assert [(p.code, p.position.line) for p in problems if p.code == "E101"] == [("E101", 4)] * 3
    assert len({p.message for p in problems}) == len(problems), "each says which placement it is about"


def test_the_list_of_problems_ends() -> None:
    text = HEAD + "name: den\n" + "".join(f"k{n}: 1\n" for n in range(PROBLEMS_LIMIT + 50))
    problems = _problems(text)
    assert len(problems) == PROBLEMS_LIMIT + 1
    assert problems[-1].code == "E099"
    assert "50" in problems[-1].message
