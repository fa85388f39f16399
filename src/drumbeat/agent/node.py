"""What this node is to the others: its member entry and the port that it keeps for a round."""

from __future__ import annotations

import os
import socket

from drumbeat.agent.link import address_towards
from drumbeat.protocol.agent import Enrolment
from drumbeat.protocol.roster import Member


def member(enrolment: Enrolment) -> Member:
    """The node as its enrolment says and as it finds itself."""
    return Member(
        node=enrolment.node,
        host=enrolment.host or socket.gethostname(),
        address=enrolment.address or address_towards(enrolment.servers),
        root=enrolment.root,
        checkpoints=enrolment.checkpoints,
        gpus=enrolment.gpus,
        cpus=len(os.sched_getaffinity(0)),
    )


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
