"""Trials of a sweep take over each other's nodes on every engine whose machines are not this one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drumbeat.model.states import State
from tools.slurmlab import SlurmLab

from .house import House, until
from .places import PLACES, Place, slurm
from .test_handover import end_of, stories

pytestmark = pytest.mark.feature("S6")

SWEEP = """
type: sweep
name: {name}
compute: {compute}
trial:
  code: .
  command: "echo $DRUMBEAT_CHECKPOINT_DIR; touch $DRUMBEAT_CHECKPOINT_DIR/mark; ls $DRUMBEAT_CHECKPOINT_DIR | wc -l;
    python trial.py ${{{{search_space.x}}}}"
  resources: {{instance_count: {nodes}}}
sampling_algorithm: grid
search_space: {{x: {{type: choice, values: {values}}}}}
objective: {{goal: maximize, primary_metric: score}}
limits: {{max_total_trials: {count}, max_concurrent_trials: {concurrent}}}
drumbeat: {{environment: current}}
"""
SCRIPT = """
import json, os, sys, time, urllib.request
address = os.environ["MLFLOW_TRACKING_URI"]
body = {"points": [["score", float(sys.argv[1]), 0, int(time.time() * 1000)]]}
if os.environ["RANK"] == "0":
    request = urllib.request.Request(f"{address}/log", json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request).read()
"""


def swept(house: House, name: str, compute: str, count: int, nodes: int = 1, concurrent: int = 2) -> dict[int, str]:
    house.script(SCRIPT, job=name, file="trial.py")
    path = house.folder / name / "sweep.yml"
    keys = {"nodes": nodes, "concurrent": concurrent, "count": count, "values": list(range(count))}
    path.write_text(SWEEP.format(name=name, compute=compute, **keys))
    house.client.submit(path)
    return end_of(house, name)


def check(house: House, name: str, count: int, concurrent: int, printed: dict[int, str]) -> None:
    """As few gangs as trials at once; each trial has checkpoints of its own; nothing is held any more."""
    taken = [story for story in stories(house, name, count) if "; takes over the nodes of " in story]
    assert len(taken) == count - concurrent
    folders = [text.splitlines()[0] for text in printed.values()]
    assert len(set(folders)) == count, folders
    assert {text.splitlines()[1] for text in printed.values()} == {"1"}
    assert [trial.value for trial in house.client.sweep(name).trials] == [float(number) for number in range(count)]
    until(lambda: not [one for one in house.client.computes() if one.held], 60, "the end of the nodes")


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.thorough) for name in sorted(PLACES)])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with PLACES[request.param](tmp_path_factory.mktemp(request.param)) as made:
        yield made


def test_trials_of_one_node_follow_each_other_on_machines(place: Place):
    printed = swept(place.house, "many", place.compute, 6)
    check(place.house, "many", 6, 2, printed)
    until(lambda: place.processes() == [], 60, "the end of every process on the nodes")


def test_trials_of_two_nodes_follow_each_other_with_the_result_of_the_pre_flight(place: Place):
    printed = swept(place.house, "wide", place.compute, 3, nodes=2, concurrent=1)
    check(place.house, "wide", 3, 1, printed)
    told = stories(place.house, "wide", 3)
    assert all("node" in story for story in told)


@contextmanager
def slurm_house(folder: Path) -> Generator[tuple[Place, SlurmLab]]:
    clusters: list[SlurmLab] = []
    with slurm(folder, clusters.append) as place:
        yield place, clusters[0]


@pytest.mark.thorough
def test_slurm_sweep_of_20_trials_two_at_once_has_two_allocations(tmp_path: Path):
    with slurm_house(tmp_path) as (place, cluster):
        printed = swept(place.house, "twenty", place.compute, 20)
        check(place.house, "twenty", 20, 2, printed)
        asked = ["scontrol", "-o", "show", "jobs"]
        done = subprocess.run(
            asked, env={**os.environ, "SLURM_CONF": str(cluster.conf)}, capture_output=True, text=True, check=True
        )
        names = [word for line in done.stdout.splitlines() for word in line.split() if word.startswith("JobName=")]
        assert len(names) == 2, names
        assert {job.state for job in place.house.client.list(parent="twenty")} == {State.COMPLETED}
