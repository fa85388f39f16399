"""Asks git for the commit of a job's code; returns nothing without git, or when it takes too long."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

TIMEOUT_S = 2.0
"""Slower answers aren't worth the user's wait."""

PREFIX = "azureml.git."
SAME = {
    "commit": "mlflow.source.git.commit",
    "branch": "mlflow.source.git.branch",
    "repository_uri": "mlflow.source.git.repoURL",
}
"""What MLflow calls the same."""


def git_properties(folder: Path) -> dict[str, str]:
    """Properties of a job whose code is here, under Azure's names and MLflow's; {} outside of a repository."""
    where = folder if folder.is_dir() else folder.parent
    commit = _asked(where, "rev-parse", "HEAD")
    if not commit:
        return {}
    branch = _asked(where, "symbolic-ref", "--short", "-q", "HEAD") or ""
    remote = _without_secrets(_asked(where, "config", "--get", "remote.origin.url") or "")
    changed = _asked(where, "status", "--porcelain", "--", ".")
    values = {"commit": commit, "branch": branch, "repository_uri": remote}
    values["dirty"] = "unknown" if changed is None else str(bool(changed))
    properties = {f"{PREFIX}{key}": value for key, value in values.items() if value}
    return {**properties, **{name: values[key] for key, name in SAME.items() if values[key]}}


def _asked(folder: Path, *words: str) -> str | None:
    """Returns git's answer without the line's end; None if it fails or takes too long."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *words],
            capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip()[:4096] if done.returncode == 0 else None


def _without_secrets(url: str) -> str:
    """The address without user, password, query and fragment. `git@host:path` has none."""
    if "://" not in url:
        return re.sub(r"^[^@/]*:[^@/]*@", "", url)
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
