"""TensorFlow's tasks: where they run, what TF_CONFIG tells each of them."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat import launchers
from drumbeat.launchers import tensorflow
from drumbeat.model.plan import Plan
from drumbeat.model.process import ProcessSpec, is_scrubbed
from drumbeat.model.roster import Member, Roster


def a_plan(nodes: int, workers: int, servers: int = 0, *, has_chief: bool = False) -> Plan:
    table = tensorflow.ranks(nodes, workers, servers, has_chief=has_chief)
    return Plan("j", "e", "tensorflow", nodes, -(-len(table) // nodes), "python t.py", table)


def processes(plan: Plan, gpus: int = 0) -> dict[int, ProcessSpec]:
    """By rank, where node n is 10.0.0.n and holds the ports n100, n101 and so on."""
    devices = tuple(map(str, range(gpus)))
    nodes = range(plan.nodes)
    members = tuple(Member(n, f"h{n}", f"10.0.0.{n}", f"/n/{n}", "/keep", gpus=devices) for n in nodes)
    ports = [[n * 1000 + 100 + i for i in range(1 + launchers.more_ports(plan, n))] for n in nodes]
    more = tuple(tuple(held[1:]) for held in ports)
    roster = Roster(1, 1, members, ports[0][0], tuple(held[0] for held in ports), more)
    return {p.rank: p for n in nodes for p in launchers.render(plan, roster, n)}


def config(process: ProcessSpec) -> dict[str, object]:
    return json.loads(process.set["TF_CONFIG"])


@pytest.mark.feature("L5")
def test_tf_config_of_workers_names_only_workers():
    made = processes(a_plan(2, 3))
    where = ["10.0.0.0:100", "10.0.0.1:1100", "10.0.0.0:101"]
    for index in range(3):
        assert config(made[index]) == {
            "cluster": {"worker": where}, "task": {"type": "worker", "index": index}, "environment": "cloud",
        }  # fmt: skip
        assert made[index].set["TASK_INDEX"] == str(index)
        assert made[index].set["WORKER_HOSTS"] == ",".join(where)
        assert "PS_HOSTS" not in made[index].set


@pytest.mark.feature("L5")
def test_parameter_servers_have_a_chief_whose_workers_serve_too():
    plan = a_plan(2, 2, 1, has_chief=True)
    made = processes(plan)
    cluster = {"chief": ["10.0.0.0:100"], "worker": ["10.0.0.1:1100", "10.0.0.0:101"], "ps": ["10.0.0.1:1101"]}
    assert [config(made[rank])["task"] for rank in range(4)] == [
        {"type": "chief", "index": 0}, {"type": "worker", "index": 0}, {"type": "worker", "index": 1},
        {"type": "ps", "index": 0},
    ]  # fmt: skip
    assert all(config(process)["cluster"] == cluster for process in made.values())
    assert plan.workers == (0,)
    assert made[3].set["PS_HOSTS"] == "10.0.0.1:1101"


@pytest.mark.feature("L5")
def test_without_a_chief_the_workers_end_the_job_and_only_the_parameter_servers_serve():
    plan = a_plan(2, 2, 1)
    assert plan.workers == (0, 1)
    assert {*config(processes(plan)[0])["cluster"]} == {"worker", "ps"}  # type: ignore[misc]


@pytest.mark.feature("L5", "J5")
@given(st.integers(1, 9), st.integers(1, 20), st.integers(0, 9), st.booleans())
def test_every_node_has_as_many_tasks_of_a_kind_as_any_other_or_one_less(
    nodes: int, workers: int, servers: int, has_chief: bool
):
    table = tensorflow.ranks(nodes, workers, servers, has_chief=has_chief)
    for kind in (None, "worker", "ps"):
        count = Counter(rank.node for rank in table if kind in (None, rank.role))
        spread = [count[node] for node in range(nodes)]
        assert max(spread) - min(spread) <= 1
    for node in range(nodes):
        assert [r.local_rank for r in table if r.node == node] == [*range(sum(r.node == node for r in table))]
    assert [rank.rank for rank in table] == [*range(workers + servers + has_chief)]


@pytest.mark.feature("L5")
def test_every_task_listens_at_a_place_of_its_own():
    made = processes(a_plan(3, 5, 4, has_chief=True))
    cluster = config(made[0])["cluster"]
    assert isinstance(cluster, dict)
    places = [place for tasks in cluster.values() for place in tasks]
    assert len(set(places)) == len(places) == 10


@pytest.mark.feature("L5", "L11")
def test_gpus_of_a_node_are_divided_among_its_workers():
    made = processes(a_plan(1, 2, 1, has_chief=True), gpus=5)
    assert [made[rank].set["CUDA_VISIBLE_DEVICES"] for rank in range(4)] == ["", "0,1", "2,3,4", ""]


@pytest.mark.feature("L5", "L11")
@pytest.mark.parametrize(("gpus", "workers"), [(15, 11), (1, 49), (8, 3), (0, 2), (2, 2)])
def test_every_gpu_of_a_node_belongs_to_exactly_one_worker(gpus: int, workers: int):
    made = processes(a_plan(1, workers), gpus=gpus)
    given = [one for rank in range(workers) for one in made[rank].set["CUDA_VISIBLE_DEVICES"].split(",") if one]
    assert given == list(map(str, range(gpus)))


@pytest.mark.feature("L5")
def test_a_web_proxy_isnt_asked_for_the_other_tasks():
    assert processes(a_plan(2, 2))[1].defaulted["no_grpc_proxy"] == "10.0.0.0,10.0.0.1"


@pytest.mark.feature("L5")
@pytest.mark.parametrize("name", tensorflow.SET)
def test_a_cluster_that_the_agent_was_in_itself_is_taken_out(name: str):
    assert is_scrubbed(name, processes(a_plan(1, 1))[0].scrubbed)


@pytest.mark.feature("L5")
def test_the_largest_cluster_fits_into_a_variable():
    last = max(tensorflow.MAX_TASKS - 1, 0)
    made = processes(a_plan(1, tensorflow.MAX_TASKS))[last].set["TF_CONFIG"]
    longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" + "%interface0"
    assert len(made.replace("10.0.0.0", longest)) < 128 * 1024
