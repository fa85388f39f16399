"""Renders a Helm chart by a program of our own (main.go): Helm itself is in no package that tests can install."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tools.debian_packages import install

_PACKAGES = ("golang-go", "golang-github-masterminds-sprig-dev", "golang-k8s-sigs-yaml-dev")
_GOPATH = "/usr/share/gocode"


def render_chart(chart: Path, release: str, namespace: str, values: Mapping[str, object]) -> str:
    """Returns all objects, as `helm template` does. Raises RuntimeError with a template's refusal."""
    words = [str(_program()), str(chart), release, namespace]
    done = subprocess.run(words, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def missing() -> str:
    """Returns what is missing for it, "" = nothing any more: root has it installed."""
    if not (shutil.which("go") and Path(_GOPATH, "src/github.com/Masterminds/sprig").exists()):
        install(*_PACKAGES)
    return "" if shutil.which("go") else f"Go isn't here: install it (Debian: apt-get install {' '.join(_PACKAGES)})"


@cache
def _program() -> Path:
    if why := missing():
        raise FileNotFoundError(why)
    folder = Path(tempfile.mkdtemp(prefix="drumbeat-helm-"))
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": _GOPATH, "GOCACHE": str(folder / "cache")}
    source = Path(__file__).with_name("main.go")
    subprocess.run(["go", "build", "-o", folder / "helm_template", source], env=environment, check=True)
    shutil.rmtree(folder / "cache")
    return folder / "helm_template"
