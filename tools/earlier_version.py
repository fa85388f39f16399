"""The version that upgrades are tested from: its wheel, built from this repository's history, in a folder of its own.

A program with that folder first on PYTHONPATH is the earlier version, with the packages of this environment.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tools.kept_folder import KEPT
from tools.kept_programs import KeptProgram, NotFetchedError

ROOT = Path(__file__).parents[1]
VERSION, COMMIT = "0.2.0", "80272ce7e9516f7012f8818fa90f3537b2ea0e02"
_FOLDER = f"drumbeat-{VERSION}-{COMMIT[:8]}"
_BUILD = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tools.earlier_version import build; build()"
_PROGRAM = KeptProgram(_FOLDER, "drumbeat/__init__.py", (sys.executable, "-c", _BUILD))


def earlier_version() -> Path:
    """The folder for PYTHONPATH; made once on a machine. Raises NotFetchedError."""
    if not _PROGRAM.is_complete and not _has_commit():
        raise NotFetchedError(
            f"commit {COMMIT[:8]} (drumbeat {VERSION}) isn't in this clone: git fetch --unshallow gets it"
        )
    return _PROGRAM.fetch().parents[1]


def _has_commit() -> bool:
    command = ["git", "cat-file", "-e", f"{COMMIT}^{{commit}}"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def build() -> None:
    """Builds the wheel and installs it, without a network."""
    archive = ["git", "archive", COMMIT, "pyproject.toml", "README.md", "LICENSE", "src", "recipes"]
    tree = subprocess.run(archive, cwd=ROOT, check=True, capture_output=True).stdout
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps", "--no-index"]
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(tree)) as tar:
            tar.extractall(folder, filter="data")
        hatchling = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
        subprocess.run(hatchling, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (wheel,) = Path(folder, "dist").glob("*.whl")
        subprocess.run([*pip, "--target", str(KEPT / _FOLDER), str(wheel)], check=True)
