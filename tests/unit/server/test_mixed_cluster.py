"""Jobs of a cluster with queue on which some machines are kept for jobs with GPUs: what they ask for, and get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from drumbeat.engines.kubernetes.machines import machines
from drumbeat.jobfile.compute.kubernetes import KubernetesCompute
from drumbeat.model.api.computes import Machine
from drumbeat.model.api.requests import JobRequest
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore

from .house import JOB, House, until

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def node(name: str, cpus: int, gpus: int = 0, *, is_tainted: bool = False) -> dict[str, Any]:
    allocatable = {"cpu": str(cpus), "memory": "16Gi", "nvidia.com/gpu": str(gpus)}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name}, "spec": {"taints": [TAINT] if is_tainted else []}, "status": status}


GPU_NODE = node("g", 96, 8, is_tainted=True)
MIXED = [*(node(f"c{number}", 8) for number in range(4)), GPU_NODE]


@dataclass
class Cluster(FakeEngine):
    """An engine with queue whose machines are Kubernetes nodes."""

    has_queue: bool = True
    listed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: dict[str, Any] = field(default_factory=dict[str, Any])

    def machines(self) -> list[Machine]:
        document = {"name": "rack", "type": "kubernetes", "image": "r/train:1", **self.keys}
        return machines(KubernetesCompute.model_validate(document), self.listed, {})


Open = Callable[..., House]


@pytest.fixture
def of(tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as stack:

        def opened(listed: list[dict[str, Any]], **keys: Any) -> House:
            house = House(tmp_path, MemoryStore(), Cluster(listed=listed, keys=keys))
            stack.callback(house.control.stop)
            return house

        yield opened


def asked(ranks: int = 1, kind: str = "", nodes: int = 1, **more: Any) -> dict[str, Any]:
    resources = {"instance_count": nodes} | ({"instance_type": kind} if kind else {})
    return {
        **JOB,
        "distribution": {"type": "pytorch", "process_count_per_instance": ranks},
        "resources": resources,
        **more,
    }


def granted(house: House, document: dict[str, Any], name: str = "j") -> list[tuple[int, int]] | str:
    """CPU slots and GPUs of each node, or why the job never fits."""
    house.control.jobs.submit(JobRequest({**document, "name": name}))
    until(lambda: f"{name}.1" in house.engine.started or house.state(name).is_terminal)
    gang = house.engine.gangs.get(f"{name}.1")
    return [(slot.cpus, len(slot.gpus)) for slot in gang.slots] if gang else house.store.load(name).job.sentence


@pytest.mark.parametrize(
    ("document", "slots"),
    [
        (asked(nodes=2), [(1, 0)] * 2),
        (asked(nodes=4, ranks=2), [(2, 0)] * 4),
        (asked(), [(1, 0)]),
        (asked(command="torchrun --nproc-per-node=8 t.py"), [(1, 0)]),
        (asked(nodes=4, ranks=16, kind="cpu"), [(8, 0)] * 4),
        (asked(nodes=2, drumbeat={"min_nodes": 1, "max_nodes": 4}), [(1, 0)] * 4),
    ],
    ids=["two nodes", "four nodes", "one rank", "launcher", "more ranks than slots", "elastic"],
)
def test_job_that_asks_for_no_gpus_runs_on_the_machines_for_all_jobs(of: Open, document: dict[str, Any], slots: object):
    assert granted(of(MIXED), document) == slots


@pytest.mark.parametrize(
    ("document", "slots"),
    [
        (asked(ranks=8, kind="gpu"), [(8, 8)]),
        (asked(kind="gpu:4"), [(1, 4)]),
        (asked(kind="gpu", command="torchrun --nproc-per-node=8 t.py"), [(1, 8)]),
        (asked(kind="gpu", drumbeat={"min_nodes": 1, "max_nodes": 2}), [(1, 1)]),
        (asked(distribution={"type": "ray", "head_node_additional_args": "--num-gpus 2"}), [(8, 2)]),
    ],
    ids=["ranks", "each node", "launcher", "elastic", "ray"],
)
def test_job_that_asks_for_gpus_runs_on_the_machines_kept_for_them(of: Open, document: dict[str, Any], slots: object):
    assert granted(of(MIXED), document) == slots


def test_job_takes_gpus_unasked_where_all_machines_are_kept_for_them(of: Open):
    assert granted(of([GPU_NODE]), asked(ranks=8)) == [(8, 8)]


def test_job_takes_gpus_unasked_of_machines_for_all_jobs(of: Open):
    assert granted(of([node("c", 8, 2), GPU_NODE]), asked(ranks=2)) == [(2, 2)]


def test_elastic_job_uses_idle_machines_beside_jobs_on_other_kinds_of_machine(of: Open):
    sizes = {"min_nodes": 1, "max_nodes": 3}
    plain, kept = [node(f"c{one}", 8) for one in range(3)], [node(f"g{one}", 8, 1, is_tainted=True) for one in range(3)]
    house = of([*plain, *kept])
    assert granted(house, asked(nodes=2, kind="gpu")) == [(1, 1)] * 2
    assert granted(house, asked(drumbeat=sizes), "cpu") == [(1, 0)] * 3
    assert granted(house, asked(kind="gpu", drumbeat=sizes), "gpu") == [(1, 1)]


def test_machine_that_is_not_listed_is_like_those_for_all_jobs(of: Open):
    house = of([node("c", 8), GPU_NODE], nodes=3)
    assert granted(house, asked(ranks=64, kind="cpu")) == [(8, 0)]


def test_machine_that_is_not_listed_is_like_those_for_gpus_where_there_are_no_others(of: Open):
    assert granted(of([GPU_NODE], nodes=3), asked(nodes=3, ranks=8, kind="gpu")) == [(8, 8)] * 3


def test_plan_notes_that_gpus_are_reserved_for_jobs_that_request_them(of: Open):
    house = of(MIXED)
    note = (
        "the ranks run on CPUs: machines with 8 GPUs in all are kept for jobs that ask for them "
        "(resources.instance_type: gpu)"
    )
    assert note in house.control.jobs.preview(JobRequest(asked())).notes
    for kind in ("cpu", "gpu"):
        assert note not in house.control.jobs.preview(JobRequest(asked(kind=kind))).notes
