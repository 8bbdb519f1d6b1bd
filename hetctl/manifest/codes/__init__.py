"""Every code of a manifest error, explained: meaning, an example that has it, and the fix.

Codes are stable. E0xx is YAML, E1xx shape, E2xx what the parts say about each other, W3xx warnings. E9xx,
what is not available yet, is the table in `hetctl.manifest.availability`.
"""

from __future__ import annotations

from typing import Final

from hetctl.manifest.codes import cross, shape, warnings, yaml
from hetctl.manifest.codes.code import Code

__all__ = ["CODES", "EXAMPLE_BASE", "Code"]

CODES: Final[dict[str, Code]] = {**yaml.CODES, **shape.CODES, **cross.CODES, **warnings.CODES}
"""All codes of errors and warnings, E9xx apart."""

EXAMPLE_BASE: Final = """\
apiVersion: hetctl/v1
kind: Cluster
name: den
nodes:
  atlas: {address: 192.168.10.5, gpus: {fast: {match: RTX 5060 Ti}}}
  bench: {address: 192.168.10.9, cpuWorkers: {left: {threads: 4}}}
builds:
  main: {version: b11434, source: {archive: llama.cpp.tar.gz}}
models:
  gemma: {source: gemma.gguf}
placements:
  chat: {model: gemma, devices: [atlas/fast, bench/left]}
"""
"""What examples are fragments of."""
