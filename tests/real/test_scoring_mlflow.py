"""MLflow models are answered as MLflow's own server answers them, and Azure's forms as their bare predictions."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.real.mlflow_model_cases import CASES, INPUT_DATA
from tools.kept_programs import MLFLOW, NotFetchedError

ROOT = Path(__file__).parents[2]


def play(folder: Path, *whose: str) -> dict[str, Any]:
    try:
        modules = MLFLOW.fetch().parents[1]
    except NotFetchedError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.real.mlflow_model_cases", str(folder), *whose],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(modules)}, capture_output=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout)


@pytest.mark.thorough
@pytest.mark.feature("R2")
def test_mlflow_models_are_answered_as_by_mlflows_server_and_in_azures_form(tmp_path: Path):
    own, theirs = play(tmp_path), play(tmp_path, "mlflow")
    unlike = {
        case.name: (theirs["answers"][case.name], own["answers"][case.name])
        for case in CASES
        if own["answers"][case.name][0] != theirs["answers"][case.name][0]
        or (theirs["answers"][case.name][0] == 200 and own["answers"][case.name] != theirs["answers"][case.name])
    }
    assert unlike == {}
    bare = [200, "[4.0, 10.0]"]
    for name, forms in INPUT_DATA.items():
        assert own["azure"][name] == [bare] * len(forms)
        assert own["azure"][f"{name} as a batch"] == [bare] * len(forms)
    assert own["azure"]["wrong"] == [400, 400]
