"""The programs of Kubernetes: built once from Debian's source, and kept."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path

from tools.kept_folder import KEPT

BUILD = Path(__file__).with_name("build_kubernetes.sh")
PARTS = "node"
BUILD_TIMEOUT_S = 3600


def folder() -> Path:
    """Where they lie when they are built: the folder's name has the hash of the recipe, as the recipe computes it."""
    digest = sha256(BUILD.read_bytes() + PARTS.encode() + b"\n").hexdigest()
    return KEPT / f"k8s-{digest[:8]}"


def missing() -> str:
    """Why tests on the cluster can't run now, "" = they can."""
    if (folder() / "made").exists():
        return ""
    return f"needs Kubernetes' programs: `make thorough` builds them, or {BUILD} {KEPT} (7 CPU minutes)"


@cache
def built() -> Path | str:
    """Builds them unless they are kept; the sentence says why that failed."""
    if not missing():
        return folder()
    done = subprocess.run(
        [str(BUILD), str(KEPT)],
        env={**os.environ, "PARTS": PARTS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip() or "nothing").splitlines()[-1]
        return f"Kubernetes' programs can't be built here: {last}"
    return folder()
