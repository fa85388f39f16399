"""Azure's own clients, unmodified, each in an environment of its own; made once."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tools.kept_folder import KEPT
from tools.kept_programs import AZURE_ML, KeptProgram

from . import started
from .house import House

SCRIPTS = Path(__file__).with_name("azure_scripts")
SHARED = Path(__file__).parents[1] / "support" / "azure_scripts"
*OLDER, NEWEST = AZURE_ML
ENVIRONMENT = "AzureML-pytorch-for-tests"


def variables(house: House, *options: str) -> dict[str, str]:
    """The variables that `drumbeat azure env` prints, as a shell would set them."""
    done = house.run("azure", "env", *options)
    assert done.returncode == 0, done.stderr
    lines = [shlex.split(line) for line in done.stdout.splitlines()]
    return dict(words[1].split("=", 1) for words in lines if words[0] == "export")


def prepare(house: House) -> None:
    """Says what the names mean that the scripts have from a cloud, and writes config.json."""
    for kind, name, target in (("environment", ENVIRONMENT, "current"), ("compute", "cpu-cluster", "local")):
        done = house.run("alias", "set", kind, name, target)
        assert done.returncode == 0, done.stderr
    done = house.run("azure", "config", cwd=house.folder)
    assert done.returncode == 0, done.stderr


def run_script(
    house: House,
    name: str | Path,
    version: str = NEWEST,
    folder: Path | None = None,
    timeout: float = 550,
    program: KeptProgram | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a script with a release of the client, in an interpreter that has nothing else installed.

    name: of one of SCRIPTS, or the path of another. program: in place of the client.
    """
    program = program or AZURE_ML[version]
    started.provide(program)
    python = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    script = name if isinstance(name, Path) else SCRIPTS / f"{name}.py"
    paths = os.pathsep.join((str(KEPT / program.folder), str(folder or house.folder)))
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(house.folder), "PYTHONPATH": paths,
        "PYTHONDONTWRITEBYTECODE": "1", "AZUREML_RUN_POLLING_INTERVAL_MIN": "1", **variables(house),
    }  # fmt: skip
    done = subprocess.run(
        [str(python), "-S", str(script)], env=environment, capture_output=True, text=True,
        timeout=timeout, check=False, cwd=folder or house.folder,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done
