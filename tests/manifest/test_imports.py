import subprocess
import sys

SLOW = ("fabric", "paramiko", "networkx", "jsonschema", "rich", "click")


def test_reading_a_manifest_loads_nothing_slow() -> None:
    code = (
        "import sys; from hetctl.manifest import load_text;"
        "load_text('apiVersion: hetctl/v1\\nkind: Cluster\\nname: den\\n'); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name.partition(".")[0] for name in done.stdout.split()} & set(SLOW)
