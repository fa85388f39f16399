"""The variables by which Gloo, NCCL, TensorPipe and UCX choose their network.

`node/agent/roster_member.py` chooses the interface of a node, with `node/platform/network_interfaces.py`.
"""

from __future__ import annotations

from drumbeat.model.plan import Plan
from drumbeat.model.roster import Member

_TCP = "tcp"


def is_tcp_only(wanted: str) -> bool:
    """Whether a plan's `network` excludes InfiniBand."""
    return wanted == _TCP or wanted.startswith(f"{_TCP}:")


def place(wanted: str) -> str:
    """The interface or subnet that a plan's `network` names, "" = none."""
    return wanted.removeprefix(_TCP).removeprefix(":") if is_tcp_only(wanted) else wanted


def variables(plan: Plan, member: Member) -> dict[str, str]:
    """The variables with the interface of a node's ranks; none for a job on one node, which uses loopback.

    NCCL and UCX find InfiniBand devices by themselves, so UCX isn't restricted to an interface where there are any.
    """
    names_set: dict[str, str] = {}
    if member.interface and (plan.nodes > 1 or place(plan.network)):
        names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
        names_set = dict.fromkeys(names, member.interface)
        if member.interface != "lo" and (is_tcp_only(plan.network) or not member.infiniband):
            names_set["UCX_NET_DEVICES"] = member.interface
    return {**names_set, "NCCL_IB_DISABLE": "1"} if is_tcp_only(plan.network) else names_set
