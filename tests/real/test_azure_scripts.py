"""Scripts for Azure's SDK with `drumbeat.ml` in their imports, against one server."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .house import House

SCRIPTS = Path(__file__).parents[1] / "support" / "azure_scripts"
RUNNER = """
import pathlib, runpy, sys
sys.path.insert(0, ".")
sys.modules["azure"] = None  # As where no package of Azure's is installed.
for script in sys.argv[1:]:
    print("==", script, flush=True)
    runpy.run_path(script, run_name="__main__")
"""


def names() -> list[str]:
    """The scripts in their order."""
    return sorted(path.name for path in SCRIPTS.glob("*_*.py"))


def replaced(folder: Path) -> Path:
    """A copy of the scripts with drumbeat's imports."""
    shutil.copytree(SCRIPTS, folder)
    for path in folder.glob("*.py"):
        path.write_text(path.read_text().replace("azure.ai.ml", "drumbeat.ml"))
    return folder


@pytest.mark.feature("J8")
def test_scripts_for_azures_sdk_pass_with_drumbeats_imports(house: House, tmp_path: Path):
    house.client.set_alias("environment", "toy-env", "current")
    folder = replaced(tmp_path / "scripts")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUNNER, *names()],
        cwd=folder, env=house.environment, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
