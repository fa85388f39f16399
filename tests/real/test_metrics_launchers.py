"""Ranks of every launcher log metrics as themselves."""

from __future__ import annotations

import sys

import pytest

from . import mpis
from .house import House

LOGS = """
import json, os, sys, drumbeat
task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("RANK") or task["index"]
drumbeat.log(loss=float(rank), step=0)
"""
SHAPES = {
    "pytorch": "{type: pytorch, process_count_per_instance: 2}",
    "mpi": "{type: mpi, process_count_per_instance: 2}",
    "tensorflow": "{type: tensorflow, worker_count: 4}",
}


@pytest.mark.feature("M2")
@pytest.mark.parametrize("launcher", SHAPES)
def test_each_rank_of_a_launcher_logs_as_itself(house: House, launcher: str):
    house.script(LOGS)
    keys = {"command": f'"{sys.executable} t.py"', "code": ".", "distribution": SHAPES[launcher]}
    if launcher == "mpi":
        keys["environment_variables"] = f"{{PATH: '{mpis.provide('openmpi4').path}'}}"
    job = house.client.submit(house.job_file(resources="{instance_count: 2}", **keys)).name
    ended = house.client.wait(job, 100)
    assert ended is not None
    assert ended.state == "completed", ended.sentence
    series = house.client.metrics(job).series
    assert {(one.rank, one.last.value) for one in series if one.name == "loss"} == {(rank, rank) for rank in range(4)}


TORCHRUN = """
import os, subprocess, sys
code = "import drumbeat; drumbeat.log(loss=1.0, step=0)"
for rank in "01":
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "RANK": rank}, check=True)
"""


@pytest.mark.feature("M2")
def test_ranks_that_a_rank_starts_itself_log_by_their_own_numbers(house: House):
    house.script(TORCHRUN)
    job = house.client.submit(house.job_file(command='"python t.py"', code=".")).name
    house.client.wait(job, 100)
    series = house.client.metrics(job).series
    assert {(one.rank, one.count) for one in series if one.name == "loss"} == {(0, 1), (1, 1)}
