"""The one machine of a simulation, as an engine: it starts gangs of played nodes, and its faults are told to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from drumbeat.core.lifecycle.events import Loss
from drumbeat.model.api.computes import Machine
from drumbeat.model.errors import EngineError, UnreachableError
from drumbeat.ports.engines import Gang, GangStatus
from tests.support.simulation.nodes import Node

CPUS = 6
UNKNOWN = "nothing is known of it"
"""What is said of the nodes of a gang that was never started."""


@dataclass
class Engine:
    """`ports.Engine` over played nodes. refusals: how many starts to come are refused, or fail without an answer.

    late: gangs that were started by a server which had lost the job while it was stopped, and which server that was, -1
    if it is gone. late_by, on_stop: set by the world, which knows who asks.
    """

    name: str = "simulated"
    has_queue: bool = False
    nodes: dict[str, list[Node]] = field(default_factory=dict[str, list[Node]])
    ever: list[Node] = field(default_factory=list[Node])
    """All that were ever started."""
    dead: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    leaving: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    """Nodes whose machine says that it leaves, by gang."""
    causes: dict[str, Loss] = field(default_factory=dict[str, Loss])
    starts: list[str] = field(default_factory=list[str])
    stops: set[str] = field(default_factory=set[str])
    late: dict[str, int] = field(default_factory=dict[str, int])
    ghosts: list[Node] = field(default_factory=list[Node])
    """Nodes that were cut off when their gang was stopped: they go on until they hear of it."""
    refusals: int = 0
    failures: int = 0
    make: Callable[[Gang, int], Node] = Node
    late_by: Callable[[str], int | None] = lambda _job: None
    on_stop: Callable[[str], None] = lambda _gang: None

    def machines(self) -> list[Machine]:
        """One."""
        return [Machine("m", CPUS)]

    def server_addresses(self) -> list[str]:
        """Nobody calls by a network."""
        return []

    def start(self, gang: Gang) -> str:
        """Deterministic name: twice is once."""
        if self.failures:
            self.failures -= 1
            raise OSError("the engine breaks off") if self.failures else UnreachableError("the engine doesn't answer")
        if gang.name in self.nodes:
            return "started"
        if self.refusals:
            self.refusals -= 1
            raise EngineError("no")
        late_by = self.late_by(gang.job)
        if late_by is None:
            self.starts.append(gang.name)
        else:
            self.late[gang.name] = late_by
        self.nodes[gang.name] = [self.make(gang, number) for number in range(gang.plan.nodes)]
        self.ever += self.nodes[gang.name]
        return "started"

    def rendered(self, gang: Gang) -> str:
        """Nothing is handed over."""
        del gang
        return ""

    def observe(self, gang: Gang) -> GangStatus:
        """What died is known, and what isn't there."""
        if gang.name not in self.nodes:
            gone = {} if gang.name in self.stops else dict.fromkeys(range(gang.plan.nodes), UNKNOWN)
            return GangStatus("not there", gone)
        if gang.taken:
            self._restart(gang)
        dead, cause = dict(self.dead.get(gang.name, {})), self.causes.get(gang.name, Loss.LOST)
        return GangStatus("running", dead, cause, leaving=dict(self.leaving.get(gang.name, {})))

    def _restart(self, gang: Gang) -> None:
        """Starts an agent where that of an earlier job has left without going on with this one."""
        for number, node in enumerate(self.nodes[gang.name]):
            is_of_another = (node.gang.job, node.gang.attempt) != (gang.job, gang.attempt)
            if is_of_another and node.has_left:
                self._put(gang, number)

    def take_over(self, node: Node, gang: Gang) -> None:
        """An agent goes on with the job that has taken over its node."""
        node.leave()
        nodes = self.nodes.get(gang.name, [])
        if node.number < len(nodes) and nodes[node.number] is node:
            self._put(gang, node.number)

    def _put(self, gang: Gang, number: int) -> None:
        node = self.nodes[gang.name][number] = self.make(gang, number)
        self.ever.append(node)

    def sweep(self, wanted: Callable[[], set[str]]) -> list[str]:
        """Every node that remains hears from a server sooner or later."""
        del wanted
        return []

    def stop(self, name: str) -> None:
        """Everything of the gang ends that can be reached."""
        self.on_stop(name)
        self.stops.add(name)
        self.late.pop(name, None)
        for node in self.nodes.pop(name, []):
            if node.is_cut_off:
                self.ghosts.append(node)
            else:
                node.leave()

    def close(self) -> None:
        """It made nothing."""
