"""Jobs on a real Kubernetes with real kubelets, for what virtual nodes lack: images, limits, networks, /dev/shm."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.model.api.jobs import JobWithEvents
from tools.kubelab import binaries
from tools.kubelab.lab import USER
from tools.kubelab.real_lab import IMAGE, RealKubeLab, missing, real_kube_lab

from .house import House, a_house, until

pytestmark = [pytest.mark.feature("C4"), pytest.mark.thorough, pytest.mark.timeout(900)]

MANY_S = 300
ALL_REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.tensor([float(os.environ["RANK"]) + 1])
dist.all_reduce(t)
room = os.statvfs("/dev/shm")
print("sum", t.item(), "of", dist.get_world_size(), "shm", room.f_blocks * room.f_frsize // 2**20, flush=True)
dist.destroy_process_group()
"""
TAKES_MEMORY = "taken = [bytearray(2**24) for _ in range(100)]"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKubeLab]:
    if why := missing():
        pytest.skip(why)
    programs = binaries.built()
    if isinstance(programs, str):
        pytest.skip(programs)
    pytest.importorskip("lightkube", reason="needs lightkube: pip install 'drumbeat[kubernetes]'")
    with real_kube_lab(tmp_path_factory.mktemp("kube"), "rk", 2, programs) as lab:
        yield lab


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, lab: RealKubeLab) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("house")) as house:
        create(house, lab, "rack")
        yield house


def create(house: House, lab: RealKubeLab, name: str, **keys: object) -> None:
    own = {
        "name": name, "type": "kubernetes", "kubeconfig": str(lab.kubeconfig(USER)), "image": IMAGE,
        "python": sys.executable, "programs": str(Path(sys.executable).parent), "volumes": lab.volumes(),
    }  # fmt: skip
    house.client.create_compute({**own, **keys})


def ended(house: House, script: str, compute: str, nodes: int = 1, **keys: str) -> JobWithEvents:
    house.script(script)
    file = house.job_file(
        code=".", command='"python t.py"', compute=compute, resources=f"{{instance_count: {nodes}}}",
        drumbeat="{environment: current, max_retries: 0, system_metrics: false}", **keys,
    )  # fmt: skip
    job = house.client.wait(house.client.submit(file).name, MANY_S)
    assert job is not None, [(one.name, one.sentence) for one in house.client.list()]
    return job


@pytest.mark.feature("B3")
def test_two_pods_on_two_machines_train_together_and_have_shared_memory(house: House, lab: RealKubeLab):
    job = ended(house, ALL_REDUCE, "rack", nodes=2)
    assert job.state == "completed", job.sentence
    found = [re.search(r"sum 3.0 of 2 shm (\d+)", house.logs(job.name)[rank]) for rank in (0, 1)]
    assert all(found), house.logs(job.name)
    assert all(int(one[1]) > 64 for one in found if one), "the default of 64 MB ends data loaders with bus errors"
    assert len({node.address for node in job.nodes}) == 2, "each pod has its own address"
    told = [line.sentence for line in job.story if line.sentence.startswith("pre-flight of 2 nodes:")]
    assert len(told) == 1
    until(lambda: lab.pods() == [], MANY_S, "the end of its pods")


def test_job_over_its_memory_limit_is_told_the_limit(house: House, lab: RealKubeLab):
    """The kernel kills the rank and not the agent, so Kubernetes itself doesn't say OOMKilled while the job runs."""
    create(house, lab, "small", memory="300Mi")
    job = ended(house, TAKES_MEMORY, "small")
    assert job.state == "failed"
    assert job.sentence.startswith("rank 0 on node 0 was ended by SIGKILL at the memory limit of 300 MiB"), job.sentence


def test_image_that_cant_be_pulled_fails_with_the_clusters_message(house: House, lab: RealKubeLab):
    create(house, lab, "typo", image="127.0.0.1:9/no/such:1", image_timeout=5)
    job = ended(house, "", "typo")
    assert job.state == "failed"
    assert "can't start: ErrImagePull" in job.sentence or "can't start: ImagePullBackOff" in job.sentence, job.sentence
    assert "127.0.0.1:9/no/such:1" in job.sentence
