"""Warm workers in a simulation: nodes with real supervisors on one machine, and what can happen to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from drumbeat.model import failpoints
from drumbeat.model.supervisor import ProcessStart
from drumbeat.node.supervisor import spare_folders
from drumbeat.ports.engines import Gang
from tests.support.fake_clock import FakeClock
from tests.support.simulation.nodes import Node
from tests.support.simulation.supervisors import laws
from tests.support.simulation.supervisors.agents import NodeAgent
from tests.support.simulation.supervisors.kept_nodes import KeptNode
from tests.support.simulation.supervisors.machine import (
    Box,
    PlayedProcess,
    PlayedWarmWorker,
    ProcessKilledError,
    SupervisorProcess,
)

COMMAND = "python train.py"
"""How the command of a job begins whose nodes have real supervisors."""
_TURNS = 3


@dataclass
class PointStrike:
    """What happens to an agent or a supervisor some points from now: it is killed, or stopped for some actions."""

    points: int
    actions: int
    """0 = it is killed."""


class SupervisorWorld:
    """The machine of those nodes, made when the first one begins there."""

    def __init__(self, clock: FakeClock, meanwhile: Callable[[int], None]) -> None:
        self._clock, self._meanwhile = clock, meanwhile
        self._box: Box | None = None
        self.nodes = list[KeptNode]()
        self.strike: PointStrike | None = None
        self.passed = ""
        """The last point that was passed."""
        self._looked_at = 0.0

    @property
    def box(self) -> Box:
        """The machine."""
        if self._box is None:
            self._box = Box(self._clock)
            self._box.on_rank = self._on_rank
        return self._box

    def close(self) -> None:
        """Ends all that is there."""
        for node in self.nodes:
            node.agent.kill()
        if self._box is not None:
            self._box.close()

    def make(self, gang: Gang, number: int) -> Node:
        """A node of a gang."""
        if not gang.plan.command.startswith(COMMAND):
            return Node(gang, number)
        self.nodes.append(KeptNode(gang, number, self.box))
        return self.nodes[-1]

    def _on_rank(self, process: PlayedProcess, rank: ProcessStart) -> None:
        if wrong := laws.check_rank(process, rank):
            self.box.wrongs.append(wrong)

    # --- what happens -------------------------------------------------------------------------------------------------
    def act(self, actor: NodeAgent | SupervisorProcess) -> None:
        """An agent or a supervisor takes a step, in which it may be stopped or killed."""
        if actor.is_busy or not actor.is_alive:
            return
        hook, failpoints.hook, actor.is_busy = failpoints.hook, partial(self._pass, actor), True
        try:
            actor.act()
        except ProcessKilledError:
            pass
        finally:
            failpoints.hook, actor.is_busy = hook, False
        self.look()

    def _pass(self, actor: NodeAgent | SupervisorProcess, point: str) -> None:
        self.passed = point
        strike = self.strike
        if strike is not None:
            strike.points -= 1
            if strike.points <= 0:
                self.strike = None
                if strike.actions:
                    self._meanwhile(strike.actions)
                else:
                    self.kill(actor)
        if not actor.is_alive:
            raise ProcessKilledError

    def kill(self, actor: NodeAgent | SupervisorProcess) -> None:
        """SIGKILL; an agent is started again."""
        if isinstance(actor, SupervisorProcess):
            node = next((one for one in self.nodes if one.enrolment.root == actor.root), None)
            if node and actor.supervisor:
                node.bereft.add(actor.supervisor.round.number)
            self.box.kill_supervisor(actor)
            return
        for node in self.nodes:
            if node.agent is actor:
                node.forget()

    def agents(self) -> list[NodeAgent]:
        """Those that are there."""
        return [node.agent for node in self.nodes if not node.agent.has_left]

    def supervisors(self) -> list[SupervisorProcess]:
        """Those that live."""
        return list(self._box.supervisors.values()) if self._box else []

    def preparing(self) -> list[PlayedWarmWorker]:
        """The interpreters that import their modules."""
        begun = [one for supervisor in self.supervisors() for one in supervisor.machine.warm_workers]
        return [one for one in begun if one.process.is_alive and not one.is_ready and not one.refusal]

    def waiting(self) -> list[PlayedProcess]:
        """The interpreters that are no ranks yet."""
        processes = self._box.processes.values() if self._box else ()
        return [one for one in processes if one.is_alive and one.is_interpreter and not one.served]

    def take_turns(self, count: int = _TURNS) -> None:
        """Every agent and every supervisor takes some steps."""
        for _ in range(count):
            for actor in (*self.agents(), *self.supervisors()):
                self.act(actor)

    def mend(self) -> None:
        """There is memory, and no process is stopped or killed any more."""
        self.strike = None
        if self._box is not None:
            self._box.free = 0.6

    def look(self) -> None:
        """The nodes take note of what their processes do."""
        for node in self.nodes:
            node.look()

    # --- what must hold -----------------------------------------------------------------------------------------------
    def check(self) -> None:
        """After every step."""
        if self._box is not None:
            laws.check(self._box)

    def pass_time(self) -> None:
        """Time has passed: every supervisor that isn't stopped looks around, and holds to its limits."""
        if self._box is None:
            return
        for _ in range(2):
            for supervisor in self.supervisors():
                self.act(supervisor)
        now = self._clock.monotonic()
        if not any(one.is_busy for one in (*self.supervisors(), *self.agents())):
            laws.check_after_wait(self._box, now - self._looked_at)
        self._looked_at = now

    def check_at_the_end(self) -> None:
        """When all jobs have ended."""
        if self._box is None:
            return
        self.pass_time()
        self._clock.advance(spare_folders.idle_s(self.nodes[-1].agent.client.machine) + 1)
        self.take_turns()
        spare_folders.new_folder("any", self.nodes[-1].agent.client.machine)
        laws.check_at_the_end(self._box)
