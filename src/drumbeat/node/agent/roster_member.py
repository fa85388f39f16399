"""A node's entry in the roster: its address, its interface, its machine's resources."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import replace

from drumbeat.model.agent import Enrolment
from drumbeat.model.plan import LauncherOptions
from drumbeat.model.roster import Member, Roster
from drumbeat.node.platform import network_interfaces
from drumbeat.node.platform.server_addresses import address_towards


def member(enrolment: Enrolment) -> Member:
    """Returns the entry, from the enrolment and the machine."""
    address = enrolment.address or address_towards(enrolment.servers)
    alone = Member(
        node=enrolment.node,
        host=enrolment.host or socket.gethostname(),
        address=address,
        root=enrolment.root,
        checkpoints=enrolment.checkpoints,
        gpus=enrolment.gpus,
        cpus=len(os.sched_getaffinity(0)),
        infiniband=network_interfaces.infiniband(),
    )
    interfaces: list[network_interfaces.Interface] = []
    with contextlib.suppress(OSError):
        interfaces = network_interfaces.interfaces()
    interface = network_interfaces.find(enrolment.plan.network, address, interfaces)
    return _on(alone, interface) if interface else alone


def seen_from(roster: Roster, node: int, plan: LauncherOptions) -> Roster:
    """Returns the roster with this node's interface towards the others if its own address is on no interface."""
    here = roster.member(node)
    others = [one.address for one in roster.members if one.address != here.address]
    if here.interface or plan.network or not others:
        return roster
    with contextlib.suppress(OSError):
        if interface := network_interfaces.towards(others, network_interfaces.interfaces()):
            seen = replace(here, interface=interface.name, subnet=interface.subnet)
            return replace(roster, members=tuple(seen if one is here else one for one in roster.members))
    return roster


def _on(member: Member, interface: network_interfaces.Interface) -> Member:
    return replace(member, address=interface.address, interface=interface.name, subnet=interface.subnet)
