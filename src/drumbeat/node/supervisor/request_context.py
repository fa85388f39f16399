"""The context in which a node answers a request of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from drumbeat.model.agent import Enrolment, NodeRequest
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.supervisor.client import SupervisorClient


@dataclass(frozen=True)
class RequestContext:
    """The node, its supervisor, and the request."""

    enrolment: Enrolment
    journal: Journal
    request: NodeRequest
    supervisor_client: SupervisorClient
    idle_s: Callable[[], Mapping[int, float]]
    """Returns how long each rank has shown no activity."""

    @property
    def supervisor(self) -> int:
        """The supervisor's pid, 0 = none runs."""
        return self.supervisor_client.pid
