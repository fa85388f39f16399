"""A Ray cluster's ranks: who starts what, where, and with what token, ports and folders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat import launchers
from drumbeat.launchers import ray
from drumbeat.model.plan import Plan, RayCluster
from drumbeat.model.process import ProcessSpec, is_scrubbed
from drumbeat.model.roster import Member, Roster

pytestmark = pytest.mark.feature("L8")


def a_plan(nodes: int, cluster: RayCluster) -> Plan:
    table = ray.ranks(nodes, joins=bool(cluster.address))
    return Plan("j", "e", "ray", nodes, 2, "python t.py", table, {"MINE": "1"}, ray=cluster)


def a_roster(plan: Plan, *addresses: str, gpus: int = 0) -> Roster:
    devices = tuple(map(str, range(gpus)))
    there = addresses or tuple(f"10.0.0.{node + 1}" for node in range(plan.nodes))
    members = tuple(Member(n, f"h{n}", there[n], f"/n/{n}", "/keep", gpus=devices) for n in range(plan.nodes))
    held = [[1000 * (n + 1) + i for i in range(1 + launchers.more_ports(plan, n))] for n in range(plan.nodes)]
    return Roster(1, 1, members, held[0][0], tuple(one[0] for one in held), tuple(tuple(one[1:]) for one in held))


def processes(plan: Plan, roster: Roster) -> list[ProcessSpec]:
    return [one for node in range(plan.nodes) for one in launchers.render(plan, roster, node)]


def line(process: ProcessSpec) -> str:
    return " ".join(process.argv)


def test_the_command_is_rank_0_and_all_of_ray_only_serves():
    plan = a_plan(3, RayCluster())
    assert [(one.rank, one.node, one.role, one.serves) for one in plan.ranks] == [
        (0, 0, "driver", False), (1, 0, "head", True), (2, 1, "node", True), (3, 2, "node", True),
    ]  # fmt: skip
    assert plan.workers == (0,)


def test_every_line_is_whole():
    plan = a_plan(2, RayCluster(cpus=4, head_args=("--resources", '{"big": 1}'), node_args=("--labels=a=b",)))
    roster = a_roster(plan, gpus=2)
    driver, head, node = processes(plan, roster)
    own, other = (ray.place(member) for member in roster.members)
    assert driver.argv == ("/bin/bash", "-c", "python t.py")
    assert line(head) == (
        "ray start --head --port=1000 --block --node-name=node0 --node-ip-address=10.0.0.1 "
        f"--temp-dir={own}/own --num-cpus=4 --num-gpus=2 --disable-usage-stats --include-dashboard=false "
        '--resources {"big": 1}'
    )
    assert line(node) == (
        "ray start --address=10.0.0.1:1000 --block --node-name=node1 --node-ip-address=10.0.0.2 "
        f"--temp-dir={other}/own --num-cpus=4 --num-gpus=2 --labels=a=b"
    )


def test_the_command_finds_the_cluster_and_every_part_has_the_token_by_its_file_alone():
    plan = a_plan(2, RayCluster())
    roster = a_roster(plan)
    made = processes(plan, roster)
    assert [one.set.get("RAY_ADDRESS") for one in made] == ["10.0.0.1:1000", None, None]
    assert {one.set["RAY_AUTH_MODE"] for one in made} == {"token"}
    files = [one.set["RAY_AUTH_TOKEN_PATH"] for one in made]
    assert files == [f"{ray.place(roster.members[node])}/token" for node in (0, 0, 1)]
    assert {one.set["RAY_USAGE_STATS_ENABLED"] for one in made} == {"0"}
    assert {one.set["MINE"] for one in made} == {"1"}
    assert all(is_scrubbed("RAY_NAMESPACE", one.scrubbed) for one in made)


def test_the_nodes_find_the_jobs_modules_and_ray_decides_on_threads():
    driver, head, node = processes(plan := a_plan(2, RayCluster()), a_roster(plan))
    assert (driver.modules_first, head.modules_first, node.modules_first) == ((), ("/n/0/code",), ("/n/1/code",))
    assert node.environment({"PYTHONPATH": "/mine"})["PYTHONPATH"] == "/n/1/code:/mine"
    assert node.environment({})["PYTHONPATH"] == "/n/1/code"
    assert not any("OMP_NUM_THREADS" in one.defaulted for one in (driver, head, node))


def test_nodes_on_loopback_have_an_address_each_that_ray_leaves_as_it_is():
    plan = a_plan(2, RayCluster())
    made = processes(plan, a_roster(plan, "127.0.0.1", "127.0.0.1"))
    assert made[0].set["RAY_ADDRESS"] == "127.0.0.2:1000"
    assert "--node-ip-address=127.0.0.2" in made[1].argv
    assert {"--address=127.0.0.2:1000", "--node-ip-address=127.0.0.3"} <= set(made[2].argv)


@pytest.mark.parametrize(
    ("addresses", "share"), [(("10.0.0.1", "10.0.0.2"), None), (("10.0.0.1", "10.0.0.1"), "0.1500")]
)
def test_nodes_of_one_machine_share_its_memory_for_objects(addresses: tuple[str, ...], share: str | None):
    plan = a_plan(2, RayCluster())
    found = [
        one.defaulted.get("RAY_DEFAULT_OBJECT_STORE_MEMORY_PROPORTION")
        for one in processes(plan, a_roster(plan, *addresses))
    ]
    assert found == [None, share, share]


def test_a_port_and_a_dashboard_that_were_asked_for():
    plan = a_plan(2, RayCluster(port=6399, dashboard=True))
    driver, head, _ = processes(plan, a_roster(plan))
    assert driver.set["RAY_ADDRESS"] == "10.0.0.1:6399"
    assert {"--port=6399", "--include-dashboard=true", "--dashboard-port=1001"} <= set(head.argv)
    assert [launchers.more_ports(plan, node) for node in (0, 1)] == [1, 0]
    named = a_plan(2, RayCluster(dashboard=True, dashboard_port=8265))
    assert "--dashboard-port=8265" in processes(named, a_roster(named))[1].argv
    assert launchers.more_ports(named, 0) == 0


def test_cpus_and_gpus_of_the_job_replace_the_defaults():
    plan = a_plan(2, RayCluster(cpus=4, head_args=("--num-cpus=0",), node_args=("--num-gpus", "1")))
    _, head, node = processes(plan, a_roster(plan))
    assert [word for word in head.argv if word.startswith("--num")] == ["--num-gpus=0", "--num-cpus=0"]
    assert [word for word in node.argv if word.startswith("--num")] == ["--num-cpus=4", "--num-gpus"]


def test_a_cluster_that_runs_already_is_joined_with_the_jobs_own_token():
    plan = replace(a_plan(1, RayCluster(address="10.9.9.9:6379")), variables={"RAY_AUTH_TOKEN_PATH": "/my/token"})
    (driver,) = processes(plan, a_roster(plan))
    assert driver.set["RAY_ADDRESS"] == "10.9.9.9:6379"
    assert driver.set["RAY_AUTH_TOKEN_PATH"] == "/my/token"
    assert "RAY_AUTH_MODE" not in driver.set


def test_sockets_have_room_for_their_names():
    longest = "session_2026-11-22_04-14-43_541214_4194304/sockets/plasma_store.1"
    place = ray.place(Member(0, "h", "a", "/a/very/long/path" * 20, "/keep"))
    assert len(f"{place}/own/{longest}") < 107  # unix(7)


def test_a_preview_has_stand_ins():
    plan = a_plan(2, RayCluster())
    members = tuple(Member(n, f"@node{n}", f"@node{n}", f"@node{n}", "@keep") for n in range(2))
    made = processes(plan, Roster(1, 1, members, port=0))
    assert "--port=@free-port" in made[1].argv
    assert {"--address=@node0:@free-port", "--temp-dir=@node1/ray/own"} <= set(made[2].argv)
