"""Jobs on a real Ray cluster: a machine that Ray takes back is left in time, and Ray's autoscaler starts machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.engines.netlab.lab import require_tools
from drumbeat.model.errors import EngineError
from drumbeat.node.preflight.preflight import BUDGET_S
from tools.raylab import environment
from tools.raylab.elastic import elastic_ray
from tools.raylab.lab import RayLab, ray_lab

from .house import House, a_house, until
from .preemptions import complete_preempted_job, submit_saving_job
from .test_handover_engines import check, swept

pytestmark = [pytest.mark.feature("C4"), pytest.mark.thorough, pytest.mark.timeout(900)]

MANY_S = 240


@pytest.fixture(scope="module", autouse=True)
def python() -> Path:
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    if why := environment.made():
        pytest.skip(why)
    return environment.PYTHON


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with a_house(tmp_path) as house:
        yield house


def create(house: House, lab: RayLab, **keys: object) -> None:
    own = {"name": "rack", "type": "ray", "address": lab.dashboard, "token_file": str(lab.token_file)}
    own |= {"folder": f"{lab.folder}/kept", "python": sys.executable, "programs": str(Path(sys.executable).parent)}
    house.client.create_compute({**own, **keys})


@pytest.mark.feature("B3", "C6")
def test_job_leaves_a_machine_that_is_drained_and_goes_on_from_its_last_step(
    house: House, tmp_path: Path, python: Path
):
    with ray_lab(tmp_path / "ray", "rj", 4, python, head_cpus=0) as lab:
        create(house, lab)
        go = tmp_path / "go"
        job = submit_saving_job(house, go, tmp_path / "step", 2)
        until(lambda: "from step 0" in house.logs(job).get(0, ""), MANY_S, "the ranks run")
        machine = house.client.get(job).nodes[1].host
        lab.drain(machine, 60)
        until(lambda: house.client.get(job).attempt == 2, MANY_S, "a second attempt begins")
        assert machine in lab.alive(), "it is told before the machine is gone"
        until(lambda: house.client.get(job).state == "running", MANY_S, "it runs again")
        seen = house.client.get(job)
        assert seen.failures[0].verdict.sentence == f"node 1 is taken away: Ray is draining machine {machine}"
        assert machine not in [node.host for node in seen.nodes]
        checked = [line.sentence for line in seen.story if line.sentence.startswith("pre-flight of 2 nodes: ")]
        assert len(checked) == 2, "the nodes of each attempt check each other"
        assert seen.preflight is not None
        assert [(one.node, one.peer, bool(one.error)) for one in seen.preflight.links] == [(1, 0, False)]
        assert max(one.elapsed_ms for one in seen.preflight.nodes) < BUDGET_S * 1000
        complete_preempted_job(house, job, go, MANY_S)


@pytest.mark.feature("S6")
def test_trials_follow_each_other_in_the_placements_of_the_first(house: House, tmp_path: Path, python: Path):
    with ray_lab(tmp_path / "ray", "rh", 2, python, head_cpus=0) as lab:
        create(house, lab)
        printed = swept(house, "many", "rack", 6)
        check(house, "many", 6, 2, printed)


def has_numbers(house: House) -> bool:
    scale = house.client.compute("rack").scale
    return scale is not None and scale.idle_time_s is not None


def states(house: House) -> list[str]:
    return [str(one.state) for one in house.client.compute("rack").machines]


@pytest.mark.feature("C1", "C2")
@pytest.mark.parametrize("version", [1, 2])
def test_machines_come_for_a_job_and_go_after_it(house: House, tmp_path: Path, python: Path, version: int):
    with elastic_ray(tmp_path / "ray", f"re{version}", 2, python, version=version) as lab:
        create(house, lab, min_instances=0, max_instances=2, idle_time_before_scale_down=60, cpus_per_node=2)
        until(lambda: has_numbers(house), MANY_S, "its numbers are read")
        made = house.client.compute("rack")
        assert made.scale is not None
        assert (made.scale.min_instances, made.scale.max_instances) == (0, 2)
        assert made.scale.idle_time_s == lab.idle_minutes * 60
        assert [remark.partition(" ")[0] for remark in made.remarks] == ["idle_time_before_scale_down"]
        assert states(house) == ["off", "off"]

        go = tmp_path / "go"
        job = submit_saving_job(house, go, tmp_path / "step", 2)
        until(lambda: house.client.get(job).state == "running", MANY_S, "the job runs")
        assert any("Ray's autoscaler is starting machines" in line.sentence for line in house.client.get(job).story)
        until(lambda: states(house) == ["running", "running"], MANY_S, "both are in use")
        usual = house.client.compute("rack").scale
        assert usual is not None
        assert usual.usual_start_s
        go.touch()
        ended = house.client.wait(job, MANY_S)
        assert ended is not None
        assert ended.state == "completed", ended.sentence
        until(lab.are_off, MANY_S, "all machines are off")
        until(lambda: states(house) == ["off", "off"], MANY_S, "drumbeat sees it")
