"""An operator's workplace for end-to-end tests: a home directory, a manifest, and the hetctl command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

from tests.lab.hosts import Lab

CHECKOUT = Path(__file__).resolve().parents[2]
APPLY_SECONDS = 3000
"""Longest an apply may take: compiling llama.cpp on two busy cores included."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.stdout)


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where an operator sits.

    Arguments:
        directory: Holds the home directory and the manifest.
        environment: Of every command.
    """

    directory: Path
    environment: Mapping[str, str]

    @classmethod
    def beside(cls, lab: Lab, directory: Path, environment: Mapping[str, str]) -> Workplace:
        """Return a workplace that may log in to the hosts of a lab as root."""
        home = directory / "home"
        (home / ".ssh").mkdir(parents=True, exist_ok=True)
        (home / ".ssh" / "config").write_text(lab.ssh_config())
        return cls(
            directory, {**environment, "HOME": str(home), "PYTHONPATH": str(CHECKOUT), "NO_COLOR": "1"}
        )

    @property
    def manifest(self) -> Path:
        """The manifest's path."""
        return self.directory / "cluster.yaml"

    def write(self, text: str) -> None:
        """Write the manifest."""
        self.manifest.write_text(text)

    def run(
        self, *arguments: str, seconds: float = 120, environment: Mapping[str, str] | None = None
    ) -> Outcome:
        """Run hetctl and return what it did."""
        done = subprocess.run(
            [sys.executable, "-m", "hetctl", *arguments],
            cwd=self.directory,
            env={**self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def expect(self, code: int, *arguments: str, seconds: float = 120) -> Outcome:
        """Run hetctl and insist on its exit code."""
        outcome = self.run(*arguments, seconds=seconds)
        assert outcome.code == code, f"exit {outcome.code}\n{outcome.stdout}\n{outcome.stderr}"
        return outcome

    def apply(self, code: int = 0, *arguments: str) -> Outcome:
        """Run `hetctl apply --yes`."""
        return self.expect(code, "apply", "--yes", *arguments, seconds=APPLY_SECONDS)


def answer(address: str, key: str, *, port: int = 8080, model: str = "chat") -> str:
    """Return what a placement answers to a fixed question, without chance."""
    client = openai.OpenAI(base_url=f"http://{address}:{port}/v1", api_key=key, max_retries=0, timeout=60)
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Reply with the single word: blue"}],
        temperature=0,
        max_tokens=24,
        stream=True,
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def chat_manifest(
    *,
    name: str,
    head: str,
    workers: Sequence[str],
    addresses: Mapping[str, str],
    source: Path,
    model: Path,
    extra: str = "",
) -> str:
    """Return a manifest with one chat placement over one CPU worker on each of `workers`.

    Arguments:
        name: Of the cluster.
        head: Node of the server.
        workers: Nodes with a CPU worker each.
        addresses: Address of every node.
        source: llama.cpp's source archive.
        model: GGUF file.
        extra: Lines that go into the placement, indented by four spaces.
    """
    lines = ["apiVersion: hetctl/v1", "kind: Cluster", f"name: {name}", "nodes:"]
    for node, address in addresses.items():
        pool = ", cpuWorkers: {pool: {threads: 1}}" if node in workers else ""
        lines.append(f"  {node}: {{address: {address}{pool}}}")
    lines += [
        "builds:",
        f"  main: {{version: b11434, source: {{archive: {source}}}, on: local}}",
        "models:",
        f"  gemma: {{source: {model}}}",
        "placements:",
        "  chat:",
        "    model: gemma",
        f"    devices: [{', '.join(f'{worker}/pool' for worker in workers)}]",
        "    context: 2048",
        f"    server: {{node: {head}, apiKeys: {{me: {{env: CHAT_KEY}}}}}}",
        '    ready: {prompt: "Reply with the single word: blue", expect: blue}',
        *([extra] if extra else []),
        "",
    ]
    return "\n".join(lines)
