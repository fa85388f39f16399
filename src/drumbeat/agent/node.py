"""What this node is to the others: its member entry and the port that it keeps for a round."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import replace

from drumbeat.agent.ground import network
from drumbeat.agent.ground.server_addresses import address_towards
from drumbeat.protocol.agent import Enrolment
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.roster import Member, Roster


def member(enrolment: Enrolment) -> Member:
    """The node as its enrolment says and as it finds itself."""
    address = enrolment.address or address_towards(enrolment.servers)
    alone = Member(
        node=enrolment.node,
        host=enrolment.host or socket.gethostname(),
        address=address,
        root=enrolment.root,
        checkpoints=enrolment.checkpoints,
        gpus=enrolment.gpus,
        cpus=len(os.sched_getaffinity(0)),
        infiniband=network.infiniband(),
    )
    there: list[network.Interface] = []
    with contextlib.suppress(OSError):
        there = network.interfaces()
    found = network.find(enrolment.plan.network, address, there)
    return _on(alone, found) if found else alone


def seen_from(roster: Roster, node: int, plan: Plan) -> Roster:
    """The roster with the interface towards the other nodes, for a node whose own address is on none of its own."""
    here = roster.members[node]
    others = [one.address for one in roster.members if one.address != here.address]
    if here.interface or plan.network or not others:
        return roster
    with contextlib.suppress(OSError):
        if found := network.towards(others, network.interfaces()):
            seen = replace(here, interface=found.name, subnet=found.subnet)
            return replace(roster, members=tuple(seen if one is here else one for one in roster.members))
    return roster


def _on(member: Member, found: network.Interface) -> Member:
    return replace(member, address=found.address, interface=found.name, subnet=found.subnet)


class HeldPort:
    """A port that a rank can listen on and nobody else is given: bound, not listening, with SO_REUSEADDR."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind(("", 0))
        # Only now: two sockets that both had the option before could be given the same free port.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Lets go of it."""
        self._socket.close()
