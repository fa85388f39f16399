"""The interface that foreign launchers' ranks are told."""

from __future__ import annotations

import socket

import pytest

from drumbeat.train.process_group import interface_to, interface_variables
from drumbeat.train.rank_identity import RankIdentity

pytestmark = pytest.mark.feature("L9", "T1")


def test_route_to_this_host_is_loopback():
    assert interface_to("127.0.0.1") == "lo"


def test_host_without_a_route_has_no_interface():
    assert interface_to("no such host.invalid") == ""


@pytest.mark.parametrize(
    "identity",
    [
        RankIdentity("none"),
        RankIdentity("torchrun", 0, 2, 0, 2, 0, "10.0.0.1", 1),
        RankIdentity("Slurm", 0, 2, 0, 1, 0, "127.0.0.1", 1),
        RankIdentity("Slurm", 0, 2, 0, 1, 0, "", 1),
    ],
)
def test_ranks_of_one_host_get_no_interface(identity: RankIdentity):
    assert interface_variables(identity) == {}


def test_ranks_of_several_hosts_get_the_routes_interface():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("needs a route to other hosts")
        own = probe.getsockname()[0]
    variables = interface_variables(RankIdentity("Slurm", 1, 2, 0, 1, 1, own, 1))
    assert set(variables) == {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME"}
    assert variables["GLOO_SOCKET_IFNAME"] in {name for _, name in socket.if_nameindex()} - {"lo"}
