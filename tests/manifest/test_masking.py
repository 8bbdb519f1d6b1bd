import json

import pytest

from hetctl.errors import ManifestInvalid
from hetctl.manifest import load_text

SECRET = "sk-Zq9-very-secret"
HEAD = "apiVersion: hetctl/v1\nkind: Cluster\nname: den\n"


def _chat(lines: str) -> str:
    return HEAD + "placements:\n  chat:\n    model: gemma\n    devices: [a/cpu]\n    wrong: 1\n" + lines


@pytest.mark.parametrize(
    "text",
    [
        _chat(f"    server: {{apiKeys: {{me: {SECRET}}}, prot: 1}}\n"),
        _chat(f"    server:\n      apiKeys:\n        me: {SECRET}\n"),
        _chat(f"    server: {{apiKeys: {{me: [{SECRET}]}}}}\n"),
        _chat(f"    server: {{apiKeys: {SECRET}}}\n"),
        _chat(f"    server: {{apiKeys: {{me: {{value: {SECRET}}}}}}}\n"),
        _chat(f"    server: {{apiKeys: {{me: {{env: {SECRET}}}}}}}\n"),
        _chat(f"    server: {{apiKeys: {{me: {{env: ['{SECRET}']}}}}}}\n"),
        _chat(f"    server: {{apiKeys: {{me: '{SECRET}', me: b}}}}\n"),
        _chat(f"    server: {{apiKeys: {{me: '{SECRET}', you: @x}}}}\n"),
        _chat(f"    server:\n      apiKeys:\n        me: {SECRET}: x\n"),
        _chat(f"    args: [--api-key, {SECRET}]\n"),
        _chat(f"    args: [--api-key={SECRET}, 7]\n"),
        _chat(f"    args: [--api-key, {SECRET}, 7, -c, '1']\n"),
        _chat(f"    env: {{LLAMA_API_KEY: {SECRET}, A-B: c}}\n"),
        _chat(f"    env: {{HF_TOKEN: ['{SECRET}']}}\n"),
        HEAD + f"nodes: {{atlas: {{address: a b, env: {{MY_PASSWORD: {SECRET}}}}}}}\n",
    ],
)  # fmt: skip
def test_no_problem_repeats_a_secret(text: str) -> None:
    with pytest.raises(ManifestInvalid) as caught:
        load_text(text)
    for problem in caught.value.problems:
        assert SECRET not in json.dumps([problem.message, problem.hint, problem.source_line])


def test_only_the_secret_is_masked() -> None:
    with pytest.raises(ManifestInvalid) as caught:
        load_text(_chat(f"    server: {{prot: 1, apiKeys: {{me: {SECRET}}}}}  # mine\n"))
    lines = {problem.source_line for problem in caught.value.problems}
    assert f"    server: {{prot: 1, apiKeys: {{me: {'*' * len(SECRET)}}}}}  # mine" in lines


def test_references_are_shown() -> None:
    with pytest.raises(ManifestInvalid) as caught:
        load_text(_chat("    server: {prot: 1, apiKeys: {me: {env: CHAT_KEY}, you: {file: ./key}}}\n"))
    shown = "".join(problem.source_line for problem in caught.value.problems)
    assert "CHAT_KEY" in shown
    assert "./key" in shown
