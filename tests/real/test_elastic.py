"""Elastic jobs: they start with what is free, lose a node and go on, and grow again, with each sample read once."""

from __future__ import annotations

import json
import os
import shutil
import sys
from itertools import chain
from pathlib import Path

import pytest

from tools.slurmlab import SlurmLab

from .house import House, a_house, until
from .places import netlab, slurm

pytestmark = pytest.mark.feature("F8")

COUNTS = """
import os, pathlib, sys, time
import drumbeat
kept, go = map(pathlib.Path, sys.argv[1:])
step = int(kept.read_text()) if kept.exists() else 0
print("from step", step, "in a world of", os.environ["WORLD_SIZE"], flush=True)
while not go.exists():
    step += 1
    time.sleep(0.1)
    if os.environ["RANK"] == "0":
        kept.write_text(str(step))
        drumbeat.log(step=step, **{"checkpoint/write_s": 0.001})
"""


def story(house: House, job: str) -> list[str]:
    return [line.sentence for line in house.client.get(job).story]


def until_it_runs_on(house: House, job: str, nodes: int, *, times: int = 1, within_s: float = 180) -> None:
    begun = f"in a world of {nodes}"
    try:
        until(lambda: house.logs(job).get(0, "").count(begun) == times, within_s, f"a run on {nodes} nodes")
    except AssertionError as error:
        raise AssertionError(f"{error}; its story: {story(house, job)}") from error


def test_a_job_starts_with_what_is_free_and_grows_at_a_checkpoint(tmp_path: Path):
    cpus = len(os.sched_getaffinity(0))
    if cpus < 2:
        pytest.skip("needs two CPUs")
    with a_house(tmp_path) as house:
        gate, go = tmp_path / "gate", tmp_path / "go"
        waits = {
            "command": f"while [ ! -e {gate} ]; do sleep 0.05; done",
            "distribution": {"type": "pytorch", "process_count_per_instance": cpus - 1},
        }
        busy = house.client.submit(waits).name
        house.script(COUNTS)
        file = house.job_file(
            code=".", command=f'"{sys.executable} t.py {tmp_path}/step {go}"', resources="{instance_count: 2}",
            drumbeat="{min_nodes: 1, grace_s: 2}",
        )  # fmt: skip
        job = house.client.submit(file).name
        until_it_runs_on(house, job, 1, within_s=60)
        assert "1 node granted on local; the job asks for 2 and runs on 1 to 2" in story(house, job)
        gate.touch()
        until_it_runs_on(house, job, 2, within_s=60)
        go.touch()
        ended = house.client.wait(job, 60)
        assert ended is not None
        assert (ended.state, ended.attempt, ended.failures) == ("completed", 2, ())
        assert (ended.node_count, ended.world_size) == (2, 2)
        told = story(house, job)
        assert "1 more node is free: the job grows from 1 to 2 nodes after its next checkpoint" in told
        assert any(one.startswith("the job grows from 1 to 2 nodes after the checkpoint of step ") for one in told)
        assert "2 nodes granted on local: the job grows from 1 to 2" in told
        begun = [int(line.split()[2]) for line in house.logs(job)[0].splitlines()]
        assert begun[0] == 0 < begun[1]
        assert house.client.get(busy).state == "completed"


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_a_job_in_slurm_follows_the_nodes_that_are_up(tmp_path: Path):
    clusters: list[SlurmLab] = []
    with slurm(tmp_path, clusters.append) as place:
        house, (cluster,), go = place.house, clusters, tmp_path / "go"

        def update(*state: str) -> None:
            cluster.slurm("scontrol", "update", f"nodename={cluster.names[2]}", *state)

        update("state=drain", "reason=fan")
        until(lambda: any(one.unusable for one in house.client.compute(place.compute).machines), 120)
        house.script(COUNTS)
        file = house.job_file(
            code=".", command=f'"{sys.executable} t.py {tmp_path}/step {go}"', resources="{instance_count: 3}",
            compute=place.compute,
            drumbeat="{min_nodes: 2, grow: at_once, grace_s: 2, lost_after_s: 5, max_retries: 0}",
        )  # fmt: skip
        job = house.client.submit(file).name
        until_it_runs_on(house, job, 2)
        update("state=resume")
        until_it_runs_on(house, job, 3)
        update("state=drain", "reason=power")
        place.switch_off(cluster.names[2])
        until_it_runs_on(house, job, 2, times=2)
        go.touch()
        ended = house.client.wait(job, 120)
        assert ended is not None
        assert (ended.state, ended.attempt, len(ended.failures)) == ("completed", 3, 1), story(house, job)
        assert any(one.startswith("continues with 2 of 3 nodes: node ") for one in story(house, job))


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_training_loses_a_node_and_gets_it_back_and_reads_each_sample_once(tmp_path: Path):
    pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")
    from . import elastic_rank

    folder, code = tmp_path / "read", tmp_path / "code"
    folder.mkdir()
    code.mkdir()
    shutil.copy(elastic_rank.__file__, code / "t.py")
    with netlab(tmp_path / "house") as place:
        house = place.house
        wanted = {
            "command": f"{sys.executable} t.py {folder}",
            "code": str(code),
            "compute": place.compute,
            "resources": {"instance_count": 3},
            "environment_variables": {"OMP_NUM_THREADS": "1"},
            "drumbeat": {"min_nodes": 2, "grace_s": 10, "lost_after_s": 5, "max_retries": 0},
        }
        job = house.client.submit(wanted).name
        until(lambda: last_step(folder, 1) >= 12, 180, "three nodes train")
        place.switch_off(place.nodes[2])
        until(lambda: last_step(folder, 2) >= 12, 180, "two nodes go on")
        assert house.client.get(job).node_count == 2
        place.switch_on(place.nodes[2])
        until(lambda: house.client.get(job).attempt == 3 or house.client.get(job).ended_at, 240, "it grows")
        machines = [(one.name, str(one.state), one.unusable) for one in house.client.compute(place.compute).machines]
        assert house.client.get(job).attempt == 3, "\n".join([*story(house, job), str(machines)])
        ended = house.client.wait(job, 300)
        assert ended is not None
        assert ended.state == "completed", ended.sentence
        assert (ended.attempt, ended.node_count, len(ended.failures)) == (3, 3, 1)
        assert any(one.startswith("continues with 2 of 3 nodes: node 2 was lost") for one in story(house, job))
        assert any(one.startswith("the job grows from 2 to 3 nodes after the checkpoint") for one in story(house, job))
    check_data(folder)
    check_weights(folder)


def read_by(folder: Path, attempt: int) -> dict[int, list[list[int]]]:
    """By step, what each rank of an attempt read."""
    found: dict[int, list[list[int]]] = {}
    for path in folder.glob(f"{attempt}-*.jsonl"):
        for step, indices in map(json.loads, path.read_text().splitlines()):
            found.setdefault(step, []).append(indices)
    return found


def last_step(folder: Path, attempt: int) -> int:
    return max(read_by(folder, attempt), default=0)


def check_data(folder: Path) -> None:
    """Every attempt reads at each step what one rank alone would read, and begins where the one before has saved."""
    from drumbeat.train.resumable_loader import EpochBatches

    from .elastic_rank import BATCH, EPOCHS, SAMPLES, SEED

    order = EpochBatches(SAMPLES, BATCH, 0, 1, SEED)
    expected: list[list[int]] = []
    for order.epoch in range(EPOCHS):
        expected += [[index for _, index in batch] for batch in order]
    reached = 0
    for attempt, ranks in ((1, 3), (2, 2), (3, 3)):
        steps = read_by(folder, attempt)
        assert min(steps) <= reached + 1
        assert attempt == 1 or min(steps) > 5, "it goes on from a checkpoint"
        whole = {step: shares for step, shares in steps.items() if len(shares) == ranks}
        for step, shares in whole.items():
            assert sorted(chain(*shares)) == sorted(expected[step - 1]), f"step {step} of attempt {attempt}"
        reached = max(whole)
    assert reached == len(expected)


def check_weights(folder: Path) -> None:
    """The weights are those of one process that trained without a break."""
    import torch

    from drumbeat.train.resumable_loader import ResumableLoader

    from .elastic_rank import BATCH, EPOCHS, SEED, Line, loss_of, make_model

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = ResumableLoader(Line(), batch=BATCH, seed=SEED)
    for _ in range(EPOCHS):
        for x_b1, y_b1 in loader:
            optimizer.zero_grad()
            loss_of(model, x_b1, y_b1).backward()
            optimizer.step()
    alone = [one.item() for one in model.parameters()]
    assert json.loads((folder / "weights.json").read_text()) == pytest.approx(alone, rel=1e-9)
