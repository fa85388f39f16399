"""A node whose agent has a real supervisor, in the place of one whose ranks are only counted."""

from __future__ import annotations

from dataclasses import replace

from drumbeat.model.agent import AgentStatus, Directive, Enrolment, Phase
from drumbeat.node.agent.next_step import WorkState
from drumbeat.ports.engines import Gang
from tests.support.simulation.nodes import Node
from tests.support.simulation.supervisors.agents import NodeAgent
from tests.support.simulation.supervisors.machine import Box, PlayedProcess


class KeptNode(Node):
    """A node on the box. `running`, `started` and `is_stopping` are looked up in its processes."""

    def __init__(self, gang: Gang, number: int, box: Box) -> None:
        super().__init__(gang, number)
        self.box = box
        root = f"{box.home}/nodes/{number}/{gang.job}.{gang.attempt}"
        self.enrolment = Enrolment(
            gang.job, gang.attempt, number, gang.servers, gang.node_secret(number), root,
            f"{box.home}/checkpoints/{gang.job}", gang.plan, keeps_spares=True, peer_secret=gang.peer_secret,
        )  # fmt: skip
        self.agent = NodeAgent(box, self.enrolment)

    @property
    def can_speak(self) -> bool:
        return self.agent.status() is not None

    def status(self) -> AgentStatus:
        """What the agent says, with a new serial if there is anything new in it."""
        now = replace(self.agent.status() or self.said[-1], serial=self.serial)
        if not self.said or now != self.said[-1]:
            self.serial += 1
            now = replace(now, serial=self.serial)
            self.said.append(now)
        recorded = self.done.setdefault(now.round, [])
        for one in now.exits:
            if one not in recorded:
                recorded.append(one)
                self._require_so(now.round, one.rank, one.code if one.signal is None else -one.signal)
        return now

    def _require_so(self, number: int, rank: int, code: int | None) -> None:
        codes = [one.code for one in self._processes() if (one.served[-1].round, one.served[-1].rank) == (number, rank)]
        if codes != [code]:
            wrong = f"rank {rank} of {self.gang.name} is said to have ended with {code} in round {number}: {codes}"
            self.box.wrongs.append(wrong)

    def _processes(self) -> list[PlayedProcess]:
        """Those that are, or have been, its ranks."""
        own, gang = set(self.ranks), (self.gang.job, self.gang.attempt)
        parts = [(one, one.served[-1]) for one in self.box.processes.values() if one.served]
        return [one for one, part in parts if (part.job, part.attempt) == gang and part.rank in own]

    def look(self) -> None:
        """Takes note of what its processes do."""
        alive = [one for one in self._processes() if one.is_alive]
        self.running = [one.served[-1].rank for one in alive]
        self.started = sorted({one.served[-1].round for one in self._processes()})
        self.is_stopping = any(one.is_asked for one in alive)
        self.bereft |= {number for root, number in self.box.abandoned if root == self.enrolment.root}
        if self.agent.has_left:
            self.has_left = True

    def obey(self, directive: Directive) -> None:
        self.told = directive.servers
        if directive.attempt == self.gang.attempt:
            self.agent.wanted = directive

    def leave(self) -> None:
        self.agent.clean_up()
        self.look()

    def end_rank(self, which: int, code: int, at: float) -> None:
        del at
        alive = [one for one in self._processes() if one.is_alive]
        able = [one for one in alive if code or one.is_asked or one.served[-1].rank in self.gang.plan.workers]
        if able:
            self.box.end(able[which % len(able)], code)
        self.look()

    def end_stopped(self, at: float) -> None:
        del at
        for one in self._processes():
            if one.is_asked:
                self.box.end(one, 143)
        self.look()

    def lose_supervisor(self) -> None:
        supervisor = self.box.supervisor_in(f"{self.enrolment.root}/keeper")
        if supervisor:
            self.note_loss(supervisor.supervisor.round.number if supervisor.supervisor else 0)
            self.box.kill_supervisor(supervisor)
        self.look()

    def note_loss(self, number: int) -> None:
        """Its supervisor is killed in this round."""
        self.bereft.add(number)

    def fail_staging(self) -> None:
        if self.agent.facts.staging is WorkState.NONE:
            self.agent.facts.staging, self.agent.facts.error = WorkState.FAILED, "no space left on the node"

    def forget(self) -> None:
        if not self.agent.has_left:
            self.agent.kill()
            self.agent = NodeAgent(self.box, self.enrolment)

    @property
    def is_at_work(self) -> bool:
        """Whether ranks may run here."""
        return self.said[-1].phase is Phase.RUNNING if self.said else False
