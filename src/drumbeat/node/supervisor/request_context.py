"""What a request of the server to a node is answered from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from drumbeat.model.agent import Enrolment, NodeRequest
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.supervisor.client import KeeperClient


@dataclass(frozen=True)
class RequestContext:
    """The node, its keeper, and the request."""

    enrolment: Enrolment
    journal: Journal
    request: NodeRequest
    keeper_client: KeeperClient
    idle_s: Callable[[], Mapping[int, float]]
    """Returns how long each rank has given no sign of work."""

    @property
    def keeper(self) -> int:
        """The keeper's pid, 0 = none runs."""
        return self.keeper_client.pid
