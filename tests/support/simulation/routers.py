"""The router of a simulation: replicas whose ranks run have dialed in, if their secret is in the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drumbeat.model.routing_table import EndpointRoute, RoutingTable, digest
from drumbeat.model.scoring_tokens import replica_secret
from tests.support.simulation.nodes import Node


class SimulatedRouter:
    """As much of `RouterProgram` as the server uses. It outlives servers, and can be killed."""

    url = "http://router/endpoints"
    replica_addresses = ("unix:/home/router/replicas/router.sock",)
    replica_port, ca, scoring_url = 8444, "", ""
    door_urls: tuple[str, ...] = ()

    def __init__(self, nodes: Callable[[], Sequence[Node]]) -> None:
        self._nodes = nodes
        self.table = RoutingTable()
        self.is_dead = True
        self.asked = 0
        """How often its numbers were asked for."""
        self.waiting = 0
        """Requests that wait at each deployment."""
        self.replicas: Callable[[Mapping[str, str]], dict[str, dict[str, int]]] = self._dialed

    def problem(self, numbers: dict[str, Any] | None) -> str:
        """Why clients can't call."""
        del numbers
        return "it is dead" if self.is_dead else ""

    def door_problem(self, numbers: dict[str, Any] | None) -> str:
        """Nodes of a simulation are on the server's machine."""
        del numbers
        return ""

    def open_doors(self, ips: Mapping[str, tuple[str, ...]], *, is_complete: bool) -> None:
        """Nodes of a simulation are on the server's machine."""
        assert not ips
        assert is_complete

    def write(self, endpoints: Mapping[str, EndpointRoute]) -> None:
        """The table is a file: it outlives the router."""
        self.table = RoutingTable(endpoints)

    def keep(self) -> bool:
        """Starts it if it isn't there."""
        was_dead, self.is_dead = self.is_dead, False
        return was_dead

    def end(self) -> None:
        """SIGTERM."""
        self.is_dead = True

    def numbers(self) -> dict[str, Any] | None:
        """What has dialed in by now."""
        self.asked += 1
        if self.is_dead:
            return None
        return {
            "endpoints": {name: one.settings for name, one in self.table.endpoints.items()},
            "deployments": [
                {
                    "name": f"{endpoint}/{name}",
                    "busy": 0,
                    "waiting": self.waiting,
                    "replicas": self.replicas(route.replicas),
                }
                for endpoint, one in self.table.endpoints.items()
                for name, route in one.deployments.items()
            ],
        }

    def _dialed(self, digests: Mapping[str, str]) -> dict[str, dict[str, int]]:
        return {
            node.gang.job: {"permits": 1}
            for node in self._nodes()
            if node.running and digests.get(node.gang.job) == digest(replica_secret(node.gang.node_secret(0)))
        }
