"""The TensorFlow recipe as a stranger runs it: both job files, both scripts, on two nodes of this machine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import curated_environments

from .house import House, a_house

pytestmark = [pytest.mark.feature("L5", "T6"), pytest.mark.xdist_group("tensorflow"), pytest.mark.timeout(900)]

RECIPES = Path(__file__).parents[2] / "recipes"
RECIPE = RECIPES / "mnist_tensorflow"
ENVIRONMENT = "tensorflow"
AT_OWN_PACE = 0.8
"""Where workers don't wait for each other, the machine's load has its part in what is learned; guessing gives 0.1."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """With the environment in reach that is kept for tests."""
    try:
        curated_environments.folder(ENVIRONMENT)
    except LookupError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch, a_house(tmp_path_factory.mktemp("mnist")) as there:
        patch.setenv("DRUMBEAT_CACHE", str(curated_environments.NODES))
        there.environment["DRUMBEAT_CACHE"] = str(curated_environments.NODES)
        yield there


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    subprocess.run([sys.executable, RECIPES / "fashion_mnist" / "make_digits.py", folder], check=True)
    return folder


def train(house: House, digits: Path, file: str, *more: str) -> tuple[str, dict[str, object]]:
    """What `drumbeat run` printed, and what the job wrote of itself."""
    settings = [word for one in (f"inputs.data={digits}", "inputs.steps=300", *more) for word in ("--set", one)]
    done = house.run("run", RECIPE / file, *settings, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    job = house.client.list()[0].name
    house.client.download(job, house.folder / job, under="outputs/model")
    (metrics,) = (house.folder / job).rglob("metrics.json")
    assert (metrics.parent / "model.keras").stat().st_size > 100_000
    return done.stdout, json.loads(metrics.read_text())


@pytest.mark.thorough
def test_workers_in_step_learn_the_digits_by_fit(house: House, digits: Path):
    out, metrics = train(house, digits, "job.yml")
    assert metrics["test"]["accuracy"] >= 0.95  # type: ignore[index]
    assert "2 workers, each in step; 300 updates of 64 images" in out
    assert len(re.findall(r"Epoch 6/6", out)) == 1


@pytest.mark.thorough
def test_workers_of_a_parameter_server_learn_the_digits_by_a_loop_of_their_own(house: House, digits: Path):
    out, metrics = train(house, digits, "job_ps.yml")
    assert metrics["test"]["accuracy"] >= AT_OWN_PACE  # type: ignore[index]
    assert "2 workers, each at its own pace; 300 updates of 32 images" in out
    assert metrics["staleness"]["most"] >= 0  # type: ignore[index]
    assert house.client.list()[0].sentence == "1 rank ended with exit code 0"


@pytest.mark.thorough
@pytest.mark.parametrize(("file", "script"), [("job.yml", "loop.py"), ("job_ps.yml", "fit.py")])
def test_each_script_trains_under_the_other_job_file_too(house: House, digits: Path, file: str, script: str):
    _, metrics = train(house, digits, file, f"inputs.script={script}")
    assert metrics["test"]["accuracy"] >= AT_OWN_PACE  # type: ignore[index]


@pytest.mark.thorough
def test_a_missing_file_ends_in_one_sentence(house: House, tmp_path: Path):
    python = curated_environments.folder(ENVIRONMENT) / "bin" / "python"
    command = [python, RECIPE / "fit.py", "--data", tmp_path / "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    names = "train-images-idx3-ubyte nor train-images-idx3-ubyte.gz (MNIST's own file names)"
    assert done.stderr.splitlines()[-1] == f"fit.py: {tmp_path}/nowhere holds neither {names}"
