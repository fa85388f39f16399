"""Which interface the ranks are told, and what an agent makes of the kernel's list."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat import launchers
from drumbeat.launchers import network_variables as told
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import Plan
from drumbeat.model.roster import Member, Roster
from drumbeat.node.platform import network_interfaces
from drumbeat.node.platform.network_interfaces import Interface

pytestmark = pytest.mark.feature("L9")

LO, ETH, IB = Interface("lo", "127.0.0.1", 8), Interface("eth0", "10.0.0.7", 24), Interface("ib0", "10.9.3.7", 16)
SIX = Interface("eth0", "fd00::7", 64)
THERE = (LO, ETH, IB, SIX)


@pytest.mark.parametrize(
    ("wanted", "address", "found"),
    [
        ("", "10.0.0.7", ETH),
        ("", "10.9.3.7", IB),
        ("", "fd00::7", SIX),
        ("", "127.0.0.1", LO),
        ("", "192.168.1.1", None),
        ("", "gpu-7.cluster", None),
        ("ib0", "10.0.0.7", IB),
        ("10.9.0.0/16", "10.0.0.7", IB),
        ("10.9.3.7", "10.0.0.7", IB),
        ("fd00::/16", "10.0.0.7", SIX),
        ("eth", "10.0.0.7", None),
        ("tcp", "10.0.0.7", ETH),
        ("tcp:ib0", "10.0.0.7", IB),
        ("tcp:10.9.0.0/16", "10.0.0.7", IB),
    ],
)
def test_the_interface_is_the_one_of_the_nodes_address_or_the_one_that_is_named(
    wanted: str, address: str, found: Interface | None
):
    assert network_interfaces.find(wanted, address, THERE) == found


@pytest.mark.parametrize("wanted", ["eth7", "172.16.0.0/12", "tcp:eth7"])
def test_a_network_that_a_node_does_not_have_is_refused_with_those_that_it_has(wanted: str):
    with pytest.raises(RefusedError) as caught:
        network_interfaces.require(wanted, THERE)
    said = str(caught.value)
    assert f"has no interface {wanted.removeprefix('tcp:')}; it has lo (127.0.0.1/8), eth0 (10.0.0.7/24)" in said
    assert "drumbeat.network" in said


@pytest.mark.parametrize("wanted", ["", "tcp", "eth0", "10.0.0.0/8", "tcp:ib0"])
def test_a_network_that_is_there_or_none_is_taken(wanted: str):
    network_interfaces.require(wanted, THERE)


def test_an_interface_knows_its_subnet():
    assert (ETH.subnet, IB.subnet, SIX.subnet) == ("10.0.0.0/24", "10.9.0.0/16", "fd00::/64")


IFNAMES = {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME"}


@pytest.mark.parametrize(
    ("nodes", "wanted", "interface", "infiniband", "names"),
    [
        (1, "", "eth0", (), set()),
        (2, "", "eth0", (), {*IFNAMES, "UCX_NET_DEVICES"}),
        (2, "", "eth0", ("mlx5_0",), IFNAMES),
        (2, "", "lo", (), IFNAMES),
        (2, "", "", (), set()),
        (2, "ib0", "ib0", ("mlx5_0",), IFNAMES),
        (2, "tcp", "eth0", ("mlx5_0",), {*IFNAMES, "UCX_NET_DEVICES", "NCCL_IB_DISABLE"}),
        (1, "tcp", "eth0", ("mlx5_0",), {"NCCL_IB_DISABLE"}),
        (1, "eth0", "eth0", (), {*IFNAMES, "UCX_NET_DEVICES"}),
    ],
)
def test_ranks_get_their_network_variables(
    nodes: int, wanted: str, interface: str, infiniband: tuple[str, ...], names: set[str]
):
    plan = Plan("j", "e", "pytorch", nodes, 1, "t", launchers.ranks("pytorch", nodes, 1), network=wanted)
    member = Member(0, "h", "10.0.0.7", "/n", "/keep", interface=interface, infiniband=infiniband)
    variables = told.variables(plan, member)
    assert set(variables) == names
    assert {value for name, value in variables.items() if name != "NCCL_IB_DISABLE"} <= {interface}


def test_variable_set_by_the_user_wins():
    plan = Plan("j", "e", "pytorch", 2, 1, "t", launchers.ranks("pytorch", 2, 1), {"NCCL_SOCKET_IFNAME": "ib0"})
    members = tuple(Member(n, "h", f"10.0.0.{n}", "/n", "/keep", interface="eth0") for n in range(2))
    process = launchers.render(plan, Roster(1, 1, members, 7), 1)[0]
    found = process.environment({"GLOO_SOCKET_IFNAME": "eth9"})
    assert (found["NCCL_SOCKET_IFNAME"], found["GLOO_SOCKET_IFNAME"]) == ("ib0", "eth9")
    assert found["TP_SOCKET_IFNAME"] == "eth0"


def test_each_node_is_told_its_own_interface():
    plan = Plan("j", "e", "pytorch", 2, 1, "t", launchers.ranks("pytorch", 2, 1))
    one = Member(0, "h", "10.0.0.1", "/n", "/keep", interface="eth0")
    roster = Roster(1, 1, (one, replace(one, node=1, address="10.0.0.2", interface="ens5")), 7)
    found = [launchers.render(plan, roster, node)[0].defaulted["NCCL_SOCKET_IFNAME"] for node in range(2)]
    assert found == ["eth0", "ens5"]
