"""A real Slurm that switches its machines on and off: they come for a job, go after it, and drumbeat says how it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.model.api.computes import ComputeView
from tools.elastic_slurmlab import RESUME_TIMEOUT_S, ElasticLab, elastic_lab
from tools.slurmlab import missing, until

from .house import House, a_house

pytestmark = [pytest.mark.feature("C1", "C2", "C4"), pytest.mark.thorough, pytest.mark.timeout(900)]

PROGRAMS = str(Path(os.sys.executable).parent)
MANY_S = 240
"""slurmctld looks at machines that start each 30 s, and this machine may be busy."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ElasticLab]:
    if why := missing():
        pytest.skip(why)
    with elastic_lab(tmp_path_factory.mktemp("elastic"), "el", 2) as lab:
        yield lab


@pytest.fixture(scope="module")
def house(lab: ElasticLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("house")) as house:
        yield house


def create(house: House, lab: ElasticLab, **keys: object) -> ComputeView:
    house.client.create_compute(
        {"name": "cloud", "type": "slurm", "folder": str(lab.shared), "conf": str(lab.conf), "programs": PROGRAMS}
        | keys
    )
    until(lambda: house.client.compute("cloud").scale, "its numbers are read")
    return house.client.compute("cloud")


def states(house: House) -> list[str]:
    return [str(one.state) for one in house.client.compute("cloud").machines]


def usual_start_s(house: House) -> float | None:
    scale = house.client.compute("cloud").scale
    return scale and scale.usual_start_s


def submitted(house: House, command: str, nodes: int) -> str:
    resources = f"{{instance_count: {nodes}}}"
    keys = {"environment": "current", "grace_s": 5}
    drumbeat = ", ".join(f"{key}: {value}" for key, value in keys.items())
    file = house.job_file(
        "job", command=f"'{command}'", compute="cloud", resources=resources, drumbeat=f"{{{drumbeat}}}"
    )
    return house.client.submit(file).name


def story(house: House, job: str) -> str:
    return "\n".join(line.sentence for line in house.client.get(job).story)


def test_machines_come_for_a_job_and_go_after_it(house: House, lab: ElasticLab, tmp_path: Path):
    made = create(house, lab, min_instances=0, max_instances=2, idle_time_before_scale_down=60, tier="low_priority")
    assert made.scale is not None
    numbers = (made.scale.min_instances, made.scale.max_instances, made.scale.idle_time_s, made.scale.start_timeout_s)
    assert numbers == (0, 2, lab.suspend_s, RESUME_TIMEOUT_S)
    assert [remark.partition(" ")[0] for remark in made.remarks] == ["idle_time_before_scale_down", "tier"]
    assert f"60 in the compute's file, and {lab.suspend_s} in the cluster, where SuspendTime" in made.remarks[0]
    until(lambda: states(house) == ["off", "off"], "all are off")

    go = tmp_path / "go"
    job = submitted(house, f"until test -e {go}; do sleep 0.1; done", 2)
    until(lambda: house.client.get(job).state == "running", "the job runs", MANY_S)
    assert "CONFIGURING: el-[2-3] are being started" in story(house, job)
    until(lambda: states(house) == ["running", "running"], "both are in use", 60)
    until(lambda: usual_start_s(house), "it is known how long a start takes")  # Machines are looked at before jobs.

    house.client.scale_compute("cloud", max_instances=2)
    second = submitted(house, "true", 1)
    until(lambda: "at most 2 at a time (max_instances), 2 in use" in house.client.get(second).sentence, "it waits")
    assert house.client.get(second).state == "queued"
    go.touch()
    for name in (job, second):
        ended = house.client.wait(name, MANY_S)
        assert ended is not None
        assert ended.state == "completed", ended.sentence

    until(lambda: "leaving" in states(house), "they go", MANY_S)
    until(lab.are_off, "all machines are off", MANY_S)
    until(lambda: states(house) == ["off", "off"], "drumbeat sees it", 60)


def test_a_machine_that_never_comes_is_said_so(house: House, lab: ElasticLab):
    create(house, lab)
    lab.broken.add(lab.names[0])
    job = submitted(house, "true", 2)
    try:
        until(lambda: "unusable" in states(house), "Slurm gives it up", MANY_S)
        bad = house.client.compute("cloud").machines[0]
        assert bad.why.startswith(f"Slurm switched it on, and it didn't start within {RESUME_TIMEOUT_S} s")
        said = "PENDING: el-2 didn't start in time (Slurm's ResumeTimeout)"
        until(lambda: said in house.client.get(job).sentence, "the job says why it waits", MANY_S)
    finally:
        house.client.cancel(job)
