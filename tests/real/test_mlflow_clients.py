"""The unmodified clients of MLflow 2 and 3, whole and skinny, with a server as their tracking server and registry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import mlflows
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
        [sys.executable, str(SCRIPTS / f"{subject}.py")], env=environment, capture_output=True, text=True, timeout=280,
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
@pytest.mark.parametrize("version", [mlflows.NEWEST, mlflows.OLDEST])
def test_a_model_is_logged_registered_and_loaded(own_house, version):
    run_script(own_house, "models", mlflows.provide("mlflow", version))


WITHOUT_TORCH = {
    "lightning": ["lightning==2.6.6", "lightning-utilities", "pytorch-lightning", "torchmetrics", "tqdm"],
    "keras": ["keras==3.15.1", "absl-py", "h5py", "ml-dtypes", "namex", "optree"],
    "transformers": [
        "transformers==5.24.0", "accelerate==1.15.0", "huggingface-hub", "safetensors", "tokenizers", "regex", "tqdm",
        "hf-xet", "httpcore2", "httpx2", "truststore",
    ],
}  # fmt: skip
"""Packages of each framework; torch is this environment's own, so dependencies are named one by one."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("framework", "subject"),
    [("lightning", "lightning_autolog"), ("keras", "keras_autolog"), ("transformers", "trainer_autolog")],
)
def test_a_framework_logs_by_itself(own_house, framework, subject, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    wanted = WITHOUT_TORCH[framework]
    folder = mlflows.packages(f"mlflow-with-{framework}", ["--no-deps", *wanted], Path(framework, "__init__.py"))
    run_script(own_house, subject, mlflows.provide("mlflow", mlflows.NEWEST), folder)
