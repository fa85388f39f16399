"""The unmodified clients of MLflow 2 and 3, whole and skinny, with a server as their tracking server and registry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drumbeat.model.metrics import run_id
from tools.kept_programs import FRAMEWORKS

from . import mlflows, started
from .house import House

pytestmark = [pytest.mark.real, pytest.mark.feature("M2")]

SCRIPTS = Path(__file__).with_name("mlflow_scripts")
SUBJECTS = ("tracking", "experiments", "artifacts", "registry")
PACKAGES = [
    (package, version) for version in (mlflows.NEWEST, mlflows.OLDEST) for package in ("mlflow-skinny", "mlflow")
]


def run_script(house: House, subject: str, *folders: Path) -> None:
    """Runs a script whose client has this house's server as its tracking server."""
    house.client.status()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "MLFLOW_TRACKING_URI": f"{house.client.status().url}/mlflow",
        "MLFLOW_TRACKING_TOKEN": (house.home / "token").read_text().strip(),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GIT_PYTHON_REFRESH": "quiet",
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / f"{subject}.py")], env=environment, capture_output=True, text=True, timeout=550,
        check=False, cwd=house.folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_run_of_the_newest_skinny_client_is_read_back(own_house):
    run_script(own_house, "tracking", mlflows.provide())


@pytest.mark.thorough
@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize(("package", "version"), PACKAGES)
def test_an_unmodified_client_does_what_its_script_says(own_house, package, version, subject):
    run_script(own_house, subject, mlflows.provide(package, version))


@pytest.mark.thorough
@pytest.mark.timeout(600)  # The client starts interpreters that import all that the model needs.
@pytest.mark.parametrize("version", [mlflows.NEWEST, mlflows.OLDEST])
def test_a_model_is_logged_registered_and_loaded(own_house, version):
    run_script(own_house, "models", mlflows.provide("mlflow", version))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("framework", "subject"),
    [("lightning", "lightning_autolog"), ("keras", "keras_autolog"), ("transformers", "trainer_autolog")],
)
def test_a_framework_logs_by_itself(own_house, framework, subject, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    folder = started.provide(FRAMEWORKS[framework]).parents[1]
    run_script(own_house, subject, mlflows.provide("mlflow", mlflows.NEWEST), folder)


def run_in_job(house: House, subject: str, folder: Path, nodes: int = 1, processes: int = 1) -> str:
    """Runs a script as a job, with a client that finds the endpoint of its node; returns the job's name."""
    for name in ("checks", subject):
        house.script((SCRIPTS / f"{name}.py").read_text(), file=f"{name}.py")
    variables = {"PYTHONPATH": str(folder), "MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}
    file = house.job_file(
        command=f"python {subject}.py",
        code=".",
        drumbeat="{environment: current, max_retries: 0}",
        environment_variables=json.dumps(variables),
        resources=f"{{instance_count: {nodes}}}",
        distribution=f"{{type: pytorch, process_count_per_instance: {processes}}}",
    )
    done = house.run("run", file, "--name", subject.replace("_", "-"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return subject.replace("_", "-")


@pytest.mark.thorough
@pytest.mark.parametrize("version", [mlflows.NEWEST, mlflows.OLDEST])
def test_ranks_of_a_job_use_the_client_without_settings(own_house, version, tmp_path):
    job = run_in_job(own_house, "in_job", mlflows.provide(version=version), nodes=2, processes=2)
    series = {(one.name, one.rank): one for one in own_house.client.metrics(job).series}
    assert [series["loss", rank].last.value for rank in range(4)] == [2, 12, 22, 32]
    own_house.client.download(job, tmp_path / "down")
    run = tmp_path / "down/outputs/mlflow-artifacts" / run_id(job)
    assert [(run / f"ranks/{rank}.txt").read_text() for rank in range(4)] == [f"rank {rank}" for rank in range(4)]
    assert (run / "many/in/x.bin").stat().st_size == 1_000_000
    # The link to the endpoint of its node has a secret in it; MLflow 2 prints it whatever it is told.
    assert ("View run" in own_house.run("logs", job).stdout) == (version == mlflows.OLDEST)


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", [mlflows.NEWEST, mlflows.OLDEST])
def test_a_model_of_a_job_is_among_its_files_and_loads_after_its_end(own_house, version):
    folder = mlflows.provide("mlflow", version)
    run_in_job(own_house, "model_in_job", folder)
    run_script(own_house, "model_after_job", folder)
