#!/bin/sh
# Run the test environment's Python with the given arguments, making the environment first if needed.
# It lies outside the checkout, keyed by the dependencies in pyproject.toml, and holds hetctl's dependencies but
# not hetctl: the checkout is on the path instead, so that several checkouts can share it.
#
#   tests/lab/python.sh -m pytest tests/engine
set -eu

checkout=$(cd "$(dirname "$0")/../.." && pwd)
home=${HOME:-}
[ -n "$home" ] || home=$(getent passwd "$(id -u)" | cut -d: -f6)
export HOME="$home"
cache=${XDG_CACHE_HOME:-$home/.cache}/hetctl-test

find_python() {
    for name in ${HETCTL_PYTHON:-} python3.13 python3.12 python3.11 python3 /usr/bin/python3; do
        if "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    echo "python.sh: no Python >= 3.11 with the venv module found (Debian: apt install python3-venv)" >&2
    exit 1
}

key=$(sed -n '/^dependencies = \[/,/^]/p; /^test = \[/,/^]/p' "$checkout/pyproject.toml" | sha256sum | cut -c1-16)
environment=$cache/venv-$key
if [ ! -e "$environment/complete" ]; then
    mkdir -p "$cache"
    python=$(find_python)
    (
        flock 9
        if [ ! -e "$environment/complete" ]; then
            echo "python.sh: making $environment with $python" >&2
            rm -rf "$environment"
            "$python" -m venv "$environment"
            "$environment/bin/python" - "$checkout/pyproject.toml" >"$environment/requirements.txt" <<'PYTHON'
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
print(*project["dependencies"], *project["optional-dependencies"]["test"], sep="\n")
PYTHON
            "$environment/bin/python" -m pip install -qq --disable-pip-version-check \
                --requirement "$environment/requirements.txt" </dev/null >&2
            touch "$environment/complete"
        fi
    ) 9>"$cache/venv.lock"
fi

cd "$checkout"
export PYTHONPATH="$checkout${PYTHONPATH:+:$PYTHONPATH}"
export PATH="$environment/bin:$PATH"
exec "$environment/bin/python" "$@"
