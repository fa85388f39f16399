"""What Horovod's Gloo controller is told, and that nobody else is told it."""

from dataclasses import replace

import pytest

from drumbeat.launchers import horovod, more_ports, pytorch, render
from drumbeat.model.plan import Plan
from drumbeat.model.roster import Member, Roster

pytestmark = pytest.mark.feature("L7")

GLOO = {"HOROVOD_CONTROLLER": "Gloo"}


def plan(launcher: str = "mpi", nodes: int = 2, **variables: str) -> Plan:
    return Plan("job", "x", launcher, nodes, 2, "true", pytorch.ranks(nodes, 2), variables=variables)


def roster(nodes: int = 2, interface: str = "eth0") -> Roster:
    members = tuple(Member(n, f"h{n}", f"10.0.0.{n + 1}", f"/r{n}", "/c", interface=interface) for n in range(nodes))
    return Roster(1, 1, members, 4000, tuple(range(4000, 4000 + nodes)), ((5000,), *((),) * (nodes - 1)))


@pytest.mark.parametrize("launcher", ["mpi", "pytorch"])
def test_each_rank_knows_its_place_and_rank_0_has_the_store(launcher: str):
    made = [each for node in range(2) for each in render(plan(launcher, **GLOO), roster(), node)]
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "HOSTNAME")
    assert [tuple(each.set[f"HOROVOD_{name}"] for name in names) for each in made] == [
        ("0", "4", "0", "2", "0", "2", "node-0"),
        ("1", "4", "1", "2", "0", "2", "node-0"),
        ("2", "4", "0", "2", "1", "2", "node-1"),
        ("3", "4", "1", "2", "1", "2", "node-1"),
    ]
    where = {(e.set["HOROVOD_GLOO_RENDEZVOUS_ADDR"], e.set["HOROVOD_GLOO_RENDEZVOUS_PORT"]) for e in made}
    assert where == {("10.0.0.1", "5000")}
    assert [each.rendezvous for each in made] == ["10.0.0.1 5000", "", "", ""]
    defaults = ("HOROVOD_GLOO_IFACE", "HOROVOD_CPU_OPERATIONS", "HOROVOD_GLOO_TIMEOUT_SECONDS")
    assert {tuple(each.defaulted[name] for name in defaults) for each in made} == {("eth0", "gloo", "300")}


def test_the_store_has_a_port_of_its_own_on_node_0():
    assert [more_ports(plan(**GLOO), node) for node in range(2)] == [1, 0]
    assert more_ports(plan(), 0) == 0
    alone = replace(plan("pytorch", **GLOO), processes_per_node=1)
    assert more_ports(alone, 0) == 2  # the door of `launchers.hosts` too


def test_a_job_on_one_node_stays_on_loopback_where_no_interface_is_known():
    (first, _) = render(plan(nodes=1, **GLOO), roster(1, interface=""), 0)
    assert first.defaulted["HOROVOD_GLOO_IFACE"] == "lo"
    (first, _) = render(plan(**GLOO), roster(interface=""), 0)
    assert "HOROVOD_GLOO_IFACE" not in first.defaulted


@pytest.mark.parametrize("variables", [{}, {"HOROVOD_CONTROLLER": "mpi"}])
def test_other_jobs_get_no_horovod_variables(variables: dict[str, str]):
    for each in render(plan(**variables), roster(), 0):
        assert each.rendezvous == ""
        assert not set(each.set) & set(horovod.SET)
