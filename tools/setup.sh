#!/usr/bin/env bash
# Makes .venv: locked dependencies, torch, drumbeat itself. Works twice in a row; does nothing when nothing changed.
# Usage: tools/setup.sh        (PYTHON=python3.12 tools/setup.sh to choose the interpreter)
set -euo pipefail
cd "$(dirname "$0")/.."

TORCH=${TORCH:-torch==2.13.0}
TORCHDATA=torchdata==0.11.0
venv=.venv
stamp=$venv/.drumbeat-setup

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

python_ok() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && python_ok "$candidate"; then echo "$candidate"; return; fi
    done
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3 python3-venv >&2
        if python_ok /usr/bin/python3; then echo /usr/bin/python3; return; fi
    fi
    die "Python 3.11 or newer with its venv module is needed; install it (Debian: apt-get install python3-venv) or set PYTHON=…"
}

wanted=$(cat requirements.lock pyproject.toml tools/setup.sh | sha256sum | cut -d' ' -f1)-$TORCH
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

# A venv that was moved, or whose interpreter is gone, is made anew.
if ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    rm -rf "$venv"
    python=$(find_python)
    "$python" -m venv "$venv"
fi
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

echo "setup: installing the locked dependencies and torch into $venv; two to ten minutes, by network and disk"
pip install -q --require-hashes -r requirements.lock
# Its dependencies are in the lock; --no-deps keeps pip from drawing in CUDA packages.
echo "setup: installing $TORCH"
pip install -q --no-deps "$TORCH" "$TORCHDATA"
pip install -q --no-deps --no-build-isolation --editable .
"$venv/bin/python" -c 'import torch; print("setup: torch", torch.__version__)'
printf '%s' "$wanted" > "$stamp"
