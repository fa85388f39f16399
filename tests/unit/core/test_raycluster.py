"""What each node of a Ray cluster takes, and which words for `ray start` are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drumbeat import jobfile
from drumbeat.core.planning import plan as planning
from drumbeat.core.planning.node_resources import InstanceType, Size
from drumbeat.core.planning.plan import PlanFacts, Sources
from drumbeat.core.planning.ray_cluster import plan_cluster, unused
from drumbeat.core.scheduling.resource_needs import Need
from drumbeat.jobfile.job.distribution import RayDistribution
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.model.errors import SpecError
from drumbeat.model.plan import RayCluster
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("L8")


@pytest.mark.parametrize(
    ("machines", "nodes", "kind", "need"),
    [
        ([(8, 0)], 1, InstanceType(), Need(1, 8)),
        ([(8, 0)], 2, InstanceType(), Need(2, 4)),
        ([(8, 0)], 3, InstanceType(), Need(3, 2)),
        ([(8, 2), (4, 1), (4, 0)], 1, InstanceType(), Need(1, 8, 2)),
        ([(8, 2), (4, 1), (4, 0)], 2, InstanceType(), Need(2, 4, 1)),
        ([(8, 2), (4, 1), (4, 0)], 3, InstanceType(), Need(3, 4, 1)),
        ([(8, 2), (4, 1)], 2, InstanceType("cpu"), Need(2, 4, 0)),
        ([(8, 0)], 2, InstanceType("gpu"), Need(2, 4, 1)),
        ([(8, 8)], 1, InstanceType("gpu", 4), Need(1, 8, 4)),
        ([(2, 0)], 3, InstanceType(), Need(3, 1, alone=True)),
        ([], 2, InstanceType(), Need(2, 1, alone=True)),
    ],
)
def test_ray_node_takes_a_machine_or_its_share_of_one(machines: list[Size], nodes: int, kind: InstanceType, need: Need):
    cluster, found = plan_cluster(RayDistribution(), nodes, machines, kind)
    assert found == need
    assert cluster.cpus == need.cpus


def test_cpus_and_gpus_of_node_arguments_are_the_nodes_size():
    wanted = RayDistribution(
        head_node_additional_args="--num-cpus=1", worker_node_additional_args="--num-cpus 3 --num-gpus=1"
    )
    cluster, need = plan_cluster(wanted, 2, [(8, 2), (8, 2)], InstanceType())
    assert need == Need(2, 3, 2)
    assert cluster.node_args == ("--num-cpus", "3", "--num-gpus=1")
    _, alone = plan_cluster(wanted, 1, [(8, 0)], InstanceType())
    assert alone == Need(1, 1)


def test_dashboard_runs_if_its_port_is_set():
    assert not plan_cluster(RayDistribution(), 1, [(2, 0)], InstanceType())[0].dashboard
    cluster, _ = plan_cluster(RayDistribution(dashboard_port=8265, port=7000), 1, [(2, 0)], InstanceType())
    assert cluster == RayCluster(cpus=2, port=7000, dashboard=True, dashboard_port=8265)


@pytest.mark.parametrize(
    ("keys", "address"),
    [
        ({"address": "10.0.0.1:7000"}, "10.0.0.1:7000"),
        ({"address": "10.0.0.1"}, "10.0.0.1:6379"),
        ({"address": "10.0.0.1", "port": 7000}, "10.0.0.1:7000"),
        ({"address": "auto"}, "auto"),
        ({"address": "ray://gate:10001"}, "ray://gate:10001"),
    ],
)
def test_a_cluster_is_joined_at_its_address(keys: dict[str, object], address: str):
    cluster, need = plan_cluster(RayDistribution.model_validate({"type": "ray", **keys}), 1, [(8, 1)], InstanceType())
    assert (cluster, need) == (RayCluster(address=address), Need(1, 1))


@pytest.mark.parametrize(
    ("keys", "nodes", "says"),
    [
        ({"address": "a:1"}, 2, "asks for 2 nodes beside it"),
        ({"head_node_additional_args": "--port=7"}, 1, "--port is drumbeat's to say"),
        ({"worker_node_additional_args": "--block"}, 1, "--block is drumbeat's to say"),
        ({"worker_node_additional_args": "--labels 'a"}, 1, "No closing quotation"),
        ({"head_node_additional_args": "--num-cpus=two"}, 1, "--num-cpus needs a whole number, and has two"),
        ({"head_node_additional_args": "--num-gpus"}, 1, "--num-gpus needs a whole number, and has none"),
    ],
)
def test_impossible_ray_settings_are_refused(keys: dict[str, object], nodes: int, says: str):
    wanted = RayDistribution.model_validate({"type": "ray", **keys})
    with pytest.raises(SpecError, match=says):
        plan_cluster(wanted, nodes, [(8, 0)], InstanceType())


@pytest.mark.parametrize("key", ["include_dashboard", "dashboard_port", "head_node_additional_args"])
def test_settings_beside_an_address_are_noted_as_without_effect(key: str, messages: Messages):
    values = {"include_dashboard": True, "dashboard_port": 8265, "head_node_additional_args": "--verbose"}
    told = unused(RayDistribution.model_validate({"type": "ray", "address": "a:1", key: values[key]}))
    messages.check(*told)
    assert unused(RayDistribution.model_validate({"type": "ray", key: values[key]})) == []


PAGE = (Path(__file__).parents[3] / "docs" / "ray.md").read_text()


@pytest.mark.parametrize(
    "text", [one for one in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "command:" in one]
)
def test_the_job_files_of_the_page_are_planned_as_it_says(text: str):
    job = jobfile.loads(text)
    assert isinstance(job, CommandJob)
    made = planning.make(job, "j", "e", Sources(code="c" * 64), PlanFacts(computes={"local": (8, 0)}))
    roles = [rank.role for rank in made.plan.ranks]
    assert (made.plan.launcher, roles[0]) == ("ray", "driver")
    assert made.plan.python is not None
    assert "ray[default,train]==2.60.0" in made.plan.python.requirements
    assert roles[1:] == ([] if "address" in text else ["head", "node"])
