"""The agent as data."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

import hetctl.agent
from hetctl.transport.bundle import agent_bundle, pack


def test_the_bundle_holds_every_module_of_the_agent_and_nothing_else() -> None:
    files = Path(hetctl.agent.__file__).parent.glob("*.py")
    modules = {"hetctl.agent" if file.stem == "__init__" else f"hetctl.agent.{file.stem}" for file in files}
    assert set(agent_bundle().sources) == modules | {"hetctl"}


def test_the_same_sources_give_the_same_bundle() -> None:
    bundle = agent_bundle()
    again = pack(dict(reversed(bundle.sources.items())))
    assert (again.payload, again.sha256) == (bundle.payload, bundle.sha256)
    changed = pack({**bundle.sources, "hetctl.agent.rpc": ""})
    assert changed.sha256 != bundle.sha256


def test_the_bundle_is_small_and_is_python() -> None:
    bundle = agent_bundle()
    assert len(bundle.payload) < 60_000
    compile(zlib.decompress(bundle.payload), "bundle", "exec")


def test_packing_imports_nothing_of_the_agent() -> None:
    code = (
        "import sys; from hetctl.transport.bundle import agent_bundle; agent_bundle();"
        "sys.exit(any(name.startswith('hetctl.agent') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_starting_hetctl_loads_no_ssh_library() -> None:
    code = (
        "import sys, hetctl.transport.session, hetctl.transport.ssh, hetctl.transport.fake;"
        "sys.exit(any(name in sys.modules for name in ('fabric', 'paramiko', 'invoke', 'cryptography')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
