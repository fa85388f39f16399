"""Scripts for Azure's SDK with `drumbeat.ml` in their imports, and job files in the forms of Azure's examples."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .house import House

SUPPORT = Path(__file__).parents[1] / "support"
SCRIPTS = SUPPORT / "azure_scripts"
JOBS = sorted((SUPPORT / "azure_jobs").glob("[0-9]*.yml"))
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


@pytest.fixture(scope="module")
def with_aliases(house: House) -> House:
    """A server on which the clusters and the component of Azure's examples mean something."""
    for name in ("cpu-cluster", "gpu-cluster"):
        house.client.set_alias("compute", name, "local")
    house.client.set_alias("instance_type", "Standard_DS3_v2", "cpu")
    ports: dict[str, object] = {"inputs": {"raw": {"type": "uri_folder"}}, "environment": "azureml:sklearn@latest"}
    house.client.create_component({"name": "train_step", "command": "ls ${{inputs.raw}}", **ports})
    return house


@pytest.mark.feature("J1", "P1")
@pytest.mark.parametrize("job", JOBS, ids=[path.stem for path in JOBS])
def test_job_file_in_the_form_of_azures_examples_is_planned(with_aliases: House, job: Path):
    planned = with_aliases.client.plan(job)
    notes = [note for note in planned.notes if "drumbeat's own" not in note]
    match job.stem[:2]:
        case "02":
            assert planned.plan.command == "python main.py --lr 1e-4 --big 1e4 --octal 010 --flag True"
        case "15":
            gets = "input `raw` is declared as a `uri_folder` and gets a file, as it is given"
            assert f"step prep: {gets}" in notes
        case "16":
            dropped = "input `gone` is dropped, for the component has none of this name. It takes: raw, rows."
            assert f"step prep: {dropped}" in notes
        case "17":
            assert [step.compute for step in planned.steps] == ["local"]
        case "20":
            assert [step.name for step in planned.steps] == ["prep", "listing"]
        case _:
            assert not planned.never or "waits" in planned.queue
