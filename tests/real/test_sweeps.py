"""Sweeps run for real: the reference grid on 2×2 ranks, early stops, a bayesian search, and bad input."""

from __future__ import annotations

import json

import pytest

from drumbeat.model.states import State

from .house import House

GRID = """
type: sweep
name: {name}
trial:
  code: .
  command: >-
    python train.py --lr ${{{{search_space.lr}}}} --batch ${{{{search_space.batch}}}} --offset ${{{{inputs.offset}}}}
  distribution: {{type: pytorch, process_count_per_instance: 2}}
  resources: {{instance_count: 2}}
inputs: {{offset: 0.25}}
sampling_algorithm: grid
search_space:
  lr: {{type: choice, values: [0.1, 0.2]}}
  batch: {{type: choice, values: [16, 32]}}
objective: {{goal: maximize, primary_metric: accuracy}}
limits: {{max_total_trials: 4, max_concurrent_trials: 4}}
"""
TRAIN = """
import argparse, os, pathlib
import drumbeat
given = argparse.ArgumentParser()
for name in ("lr", "batch", "offset"):
    given.add_argument("--" + name, type=float)
given = given.parse_args()
rank = int(os.environ["RANK"])
best = given.lr + given.batch / 100 + given.offset
assert float(os.environ["AZUREML_SWEEP_lr"]) == given.lr
for step in range(4):  # Other ranks than 0 log what would win.
    drumbeat.log(accuracy=best * (step + 1) / 4 if rank == 0 else 99, step=step)
folder = pathlib.Path(os.environ["DRUMBEAT_OUTPUT_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / f"model-{rank}.txt").write_text(f"{given.lr} {given.batch:g}")
"""


def write(house: House, name: str, text: str, script: str) -> str:
    folder = house.folder / name
    folder.mkdir()
    (folder / "train.py").write_text(script)
    (folder / "sweep.yml").write_text(text)
    return str(folder / "sweep.yml")


@pytest.mark.feature("S1", "S3", "S4")
def test_grid_of_2x2_trials_finds_the_best_by_rank_0_alone(house: House):
    done = house.run("run", write(house, "grid", GRID.format(name="grid"), TRAIN))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "best grid_3: accuracy 0.77" in done.stdout
    shown = json.loads(house.run("sweep", "best", "grid", "--json").stdout)
    assert (shown["job"], shown["parameters"], shown["value"]) == ("grid_3", {"lr": 0.2, "batch": 32}, 0.77)
    trials = json.loads(house.run("sweep", "trials", "grid", "--json").stdout)
    assert [one["state"] for one in trials] == ["completed"] * 4
    assert [one["reports"] for one in trials] == [4] * 4
    assert house.run("download", "grid", "--to", house.folder / "best").returncode == 0
    assert (house.folder / "best/outputs/default/model-0.txt").read_text() == "0.2 32"
    assert "grid_3" in house.run("sweep", "show", "grid").stdout


BANDIT = """
type: sweep
name: early
trial: {code: ., command: python train.py}
sampling_algorithm: grid
search_space: {level: {type: choice, values: [0.9, 0.1]}}
objective: {goal: maximize, primary_metric: accuracy}
early_termination: {type: bandit, slack_amount: 0.2, evaluation_interval: 1}
limits: {max_total_trials: 2, max_concurrent_trials: 2}
drumbeat: {grace_s: 2}
"""
WAITS = """
import os, time
import drumbeat
level = float(os.environ["AZUREML_SWEEP_level"])
for step in range(3 if level > 0.5 else 3000):
    drumbeat.log(accuracy=level, step=step)
    time.sleep(0.2)
"""


@pytest.mark.feature("S2")
def test_trial_that_is_far_behind_is_ended_early_and_says_why(house: House):
    done = house.run("run", write(house, "early", BANDIT, WAITS))
    assert done.returncode == 0, done.stdout + done.stderr
    trials = {one.parameters["level"]: one for one in house.client.sweep("early").trials}
    assert trials[0.9].state == State.COMPLETED
    assert trials[0.1].state == State.CANCELED
    assert "0.7" in trials[0.1].stopped
    assert trials[0.1].stopped in house.client.get("early_1").sentence


BAYESIAN = """
type: sweep
name: bayesian
trial: {code: ., command: python train.py}
sampling_algorithm: bayesian
search_space:
  x: {type: uniform, min_value: -4, max_value: 4}
  kind: {type: choice, values: [good, bad]}
objective: {goal: minimize, primary_metric: loss}
limits: {max_total_trials: 20, max_concurrent_trials: 2}
"""
PARABOLA = """
import os
import drumbeat
x, kind = float(os.environ["AZUREML_SWEEP_x"]), os.environ["AZUREML_SWEEP_kind"]
drumbeat.log(loss=(x - 1) ** 2 + (5 if kind == "bad" else 0))
"""


@pytest.mark.thorough
@pytest.mark.feature("S1")
def test_bayesian_search_of_20_trials_comes_near_the_minimum(house: House):
    done = house.run("run", write(house, "bayesian", BAYESIAN, PARABOLA))
    assert done.returncode == 0, done.stdout + done.stderr
    best = house.client.best("bayesian")
    assert len(house.client.sweep("bayesian").trials) == 20
    assert best.parameters["kind"] == "good"
    assert best.value is not None
    assert best.value < 1


@pytest.mark.feature("S3")
def test_metric_that_no_trial_logs_is_reported_after_the_first_one(house: House):
    text = BANDIT.replace("early", "silent", 1).replace("early_termination: {type: bandit, slack_amount: 0.2,", "x: {")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("x:"))
    done = house.run(
        "run", write(house, "silent", text.replace("max_concurrent_trials: 2", "max_concurrent_trials: 1"), "")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first = done.stdout.index("silent_0 completed without a value of the primary metric `accuracy`")
    assert first < done.stdout.index("1 of 2 trials ended")
    assert house.run("sweep", "best", "silent").returncode != 0


def test_sweep_with_an_unknown_compute_is_refused_before_it_exists(house: House):
    done = house.run(
        "run", write(house, "wrong", BANDIT.replace("name: early", "name: wrong") + "compute: nowhere\n", "")
    )
    assert done.returncode != 0
    assert "no compute named 'nowhere'" in done.stderr
    assert "wrong" not in [job.name for job in house.client.list()]


IDLE = """
import os, time
end = time.monotonic() + 13
while time.monotonic() < end:  # Works about a third of its time.
    begun = time.process_time()
    while time.process_time() - begun < 0.05:
        pass
    time.sleep(0.1)
"""


@pytest.mark.thorough
@pytest.mark.feature("S4")
def test_sweep_of_ranks_that_wait_says_what_running_side_by_side_would_give(house: House):
    text = GRID.format(name="idle").replace("[16, 32]", "[16]").replace("[0.1, 0.2]", "[0.1, 0.2, 0.3]")
    done = house.run("run", write(house, "idle", text, IDLE))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 trials side by side would take about" in done.stdout


NAMED = """
type: sweep
name: named
trial: {code: ., command: "python train.py ${{outputs.model}}"}
outputs: {model: {type: mlflow_model, name: swept, version: 77}}
sampling_algorithm: grid
search_space: {level: {type: choice, values: [0.5, 0.9, 0.1]}}
objective: {goal: maximize, primary_metric: accuracy}
early_termination: {type: bandit, slack_factor: 0.1, delay_evaluation: 2}
limits: {max_total_trials: 3, max_concurrent_trials: 1}
"""
GROWS = """
import os, pathlib, sys, time
import drumbeat
level = float(os.environ["AZUREML_SWEEP_level"])
pathlib.Path(sys.argv[1], "level").write_text(str(level))
for step in range(1, 6):
    drumbeat.log(accuracy=level * step, step=step)
    time.sleep(0.2)
"""


@pytest.mark.feature("S1", "S3")
def test_named_output_of_a_sweep_is_one_version_and_its_best_trials(house: House):
    file = write(house, "named", NAMED, GROWS)
    done = house.run("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert house.client.best("named").job == "named_1"
    (version,) = house.client.data("swept")
    assert (version.version, version.kind, version.made_by) == ("77", "mlflow_model", "named")
    house.run("data", "download", "azureml:swept@latest", house.folder / "swept")
    assert (house.folder / "swept/level").read_text() == "0.9"
    refused = house.run("run", file, "--set", "name=again")
    assert "is to become azureml:swept:77, and that is there already" in refused.stderr
    assert "again" not in [job.name for job in house.client.list()]
