"""What the interpreter is made of that a job's command finds on PATH, where the job brings no environment."""

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


def of_current(plan: Plan, environ: Mapping[str, str] = os.environ) -> Fingerprint | None:
    """Its fingerprint; None = there is no `python` on the job's PATH, or it doesn't run."""
    path = os.pathsep.join((*plan.path_first, {**environ, **plan.variables}.get("PATH", os.defpath)))
    python = shutil.which("python", path=path) or shutil.which("python3", path=path)
    told = _told(python) if python else None
    return fingerprint(told[0], installed(told[1])) if told else None


def _told(python: str) -> tuple[str, list[str]] | None:
    """Its version and where it finds modules; not asked where it is the one that runs this very process."""
    if sys.prefix != sys.base_prefix and os.path.dirname(python) == os.path.dirname(sys.executable):
        return platform.python_version(), sys.path
    try:
        done = child_processes.run([python, "-c", _ASKS], _ASK_S)
        done.check_returncode()
        version, folders = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return version, folders
