"""Launchers of other makers really run: DeepSpeed, its autotuner, accelerate, Lightning; and fail in words."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import deepspeed_environment
from tools.matrix.rows import ROWS
from tools.matrix.rows import deepspeed as by_deepspeed
from tools.matrix.runs import Material, run

from .house import DRUMBEAT, House, a_house, until
from .places import Place, netlab

pytestmark = [pytest.mark.feature("L2"), pytest.mark.timeout(1800)]

DOCS = Path(__file__).parents[2] / "docs" / "launchers.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with netlab(tmp_path_factory.mktemp("netlab")) as there:
        yield there


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("launchers")) as there:
        yield there


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return Material(tmp_path_factory.mktemp("material"))


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    if lacks := deepspeed_environment.missing():
        pytest.skip(lacks)
    return deepspeed_environment.variables()


def trains(house: House, compute: str, material: Material, name: str, nodes: int) -> None:
    row = ROWS[name]
    if lacks := row.missing():
        pytest.skip(lacks)
    cell = run(house.client, row, row.job(material.of(row), compute, nodes), house.folder / "results")
    assert cell.trouble == ""


@pytest.mark.feature("L6", "T6")
@pytest.mark.thorough
def test_deepspeeds_own_launcher_trains_on_two_nodes_without_sshd(place: Place, material: Material, variables: Any):
    trains(place.house, place.compute, material, "deepspeed by itself", 2)
    until(lambda: not place.processes(), what="the end of everything")


@pytest.mark.thorough
@pytest.mark.feature("L6")
def test_deepspeed_trains_with_mpis_ranks(house: House, material: Material, variables: Any):
    trains(house, "local", material, "deepspeed by mpi", 1)


@pytest.mark.thorough
def test_lightning_trains_with_ranks_that_are_there(house: House, material: Material, variables: Any):
    trains(house, "local", material, "lightning", 2)


TUNED = {
    "train_micro_batch_size_per_gpu": "auto",
    "optimizer": {"type": "AdamW", "params": {"lr": 0.002, "torch_adam": True}},
    "zero_optimization": {"stage": 2},
    "autotuning": {
        "enabled": True, "fast": True, "tuner_type": "gridsearch", "tuner_early_stopping": 1, "start_profile_step": 2,
        "end_profile_step": 3, "min_train_micro_batch_size_per_gpu": 1, "max_train_micro_batch_size_per_gpu": 1,
        "num_tuning_micro_batch_sizes": 1,
    },
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.feature("L6")
def test_deepspeeds_autotuner_runs_its_experiments_to_the_end(house: House, material: Material, variables: Any):
    made = material.of(ROWS["deepspeed by itself"])
    (made.code / "ds_tune.json").write_text(json.dumps(TUNED))
    job = by_deepspeed.by_itself(made, "local", 1)
    job["command"] = (
        f"{deepspeed_environment.shell()}; deepspeed --autotuning tune --hostfile $DLTS_HOSTFILE "
        "--master_addr $MASTER_ADDR train.py --data ${{inputs.data}} --epochs 1 --model-dir m "
        "--deepspeed_config ds_tune.json "
        "&& cp autotuning_results/*optimal* ${{outputs.model}}/"
    )
    ended = house.client.wait(house.client.submit(job).name, 600)
    assert ended is not None
    assert ended.state == "completed", house.logs(ended.name)
    house.client.download(ended.name, house.folder / "tuned", under="outputs/model/")
    found = next((house.folder / "tuned").rglob("ds_config_optimal.json"))
    assert json.loads(found.read_text())["train_micro_batch_size_per_gpu"] == 1


ALONE = """
import os, time
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.1)
"""


def test_a_world_that_is_smaller_than_was_asked_for_is_told_while_it_runs_and_at_the_end(house: House, variables: Any):
    house.script(ALONE, "few")
    go = house.folder / "few" / "go"
    path = house.job_file(
        "few",
        code=".",
        command=f"{deepspeed_environment.shell()}; accelerate launch --cpu --num_processes 2 --mixed_precision no t.py",
        environment_variables=json.dumps({**variables, "GO": str(go)}),
    )
    said = "accelerate was asked for 2 processes, and the world has 1"
    printed = path.with_name("printed")
    command = [DRUMBEAT, "run", str(path)]
    with (
        printed.open("wb") as out,
        subprocess.Popen(command, env=house.environment, stdout=out, stderr=out) as follower,
    ):
        try:
            until(lambda: f"node 0: {said}" in re.sub(r"\s+", " ", printed.read_text()), 280, "the word of it")
        finally:
            go.touch()
    assert follower.returncode == 0, printed.read_text()
    job = house.client.list()[0]
    assert f"1 rank ended with exit code 0; but on node 0 {said}" in job.sentence


def test_a_launcher_that_is_not_there_is_named(house: House):
    path = house.job_file("none", code=".", command="torchrunn train.py", drumbeat="{max_retries: 0}")
    house.script("", "none")
    ended = house.client.wait(house.client.submit(path).name, 60)
    assert ended is not None
    assert (ended.state, ended.reason) == ("failed", "bad_command")
    assert "torchrunn: command not found" in ended.sentence


def job_files() -> list[str]:
    """Those of this page's launchers: their commands, whole."""
    return [text for text in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL) if "command:" in text]


@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=pytest.mark.thorough if number % 3 else ()) for number in range(len(job_files()))],
)
def test_every_job_file_of_the_page_can_be_planned(house: House, number: int):
    house.script("", f"page{number}")
    path = house.folder / f"page{number}" / "job.yml"
    path.write_text("code: .\n" + job_files()[number])
    done = house.run("plan", path)
    assert done.returncode == 0, done.stdout + done.stderr
