"""The fingerprint of the interpreter on PATH, for jobs without an environment."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping

from drumbeat.model.plan import Plan
from drumbeat.model.python_fingerprint import Fingerprint
from drumbeat.node.environments.installed_packages import fingerprint, installed
from drumbeat.node.platform import child_processes

_ASK_S = 20.0
_ASKS = "import json, platform, sys; print(json.dumps([platform.python_version(), [p for p in sys.path if p]]))"


def current_fingerprint(plan: Plan, environ: Mapping[str, str] = os.environ) -> Fingerprint | None:
    """The interpreter's fingerprint; None = no working `python` is on the job's PATH."""
    path = os.pathsep.join((*plan.path_first, {**environ, **plan.variables}.get("PATH", os.defpath)))
    python = shutil.which("python", path=path) or shutil.which("python3", path=path)
    facts = _version_and_path(python) if python else None
    return fingerprint(facts[0], installed(facts[1])) if facts else None


def _version_and_path(python: str) -> tuple[str, list[str]] | None:
    """The interpreter's version and module path; no process is started if it is this very interpreter."""
    if sys.prefix != sys.base_prefix and os.path.dirname(python) == os.path.dirname(sys.executable):
        return platform.python_version(), sys.path
    try:
        done = child_processes.run([python, "-c", _ASKS], _ASK_S)
        done.check_returncode()
        version, folders = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return version, folders
