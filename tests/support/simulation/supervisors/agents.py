"""The played agent of one attempt on the machine: what it decides is real, and so is its side of the supervisor."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from pathlib import Path

from drumbeat.launchers import render, warm_start_fit
from drumbeat.model.agent import AgentStatus, Directive, Enrolment, RankExit
from drumbeat.model.roster import Member, Roster
from drumbeat.model.supervisor import ProcessStart, StartRound, SupervisorState
from drumbeat.node.agent.next_step import AgentAction, AttemptFacts, RoundFacts, WorkState, next_step, status
from drumbeat.node.agent.node_supervisor import NodeSupervisor
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.supervisor import listener
from drumbeat.node.supervisor.client import process_start
from tests.support.simulation.supervisors.machine import AgentMachine, Box


class _NoJournal(Journal):
    """The log of an agent, which isn't kept."""

    def note(self, text: str) -> None:
        del text


class PlayedClient(NodeSupervisor):
    """A real client, without its thread: it takes one step when it is told to."""

    def __init__(self, agent: NodeAgent, machine: AgentMachine) -> None:
        self.box, self.machine = machine.box, machine
        super().__init__(agent.enrolment, _NoJournal(""), "", agent.on_supervisor, agent.on_trouble)
        self._line: socket.socket | None = None
        self._unread = b""

    def _begin(self) -> None:
        """Has no thread."""

    def _start_supervisor(self) -> None:
        self.machine.end_rest(self._folder)
        self._child = self.box.start_supervisor(self._folder).pid

    def _reap(self) -> None:
        if self._child not in self.box.supervisors:
            self._child = 0

    def leave(self, grace_s: float) -> None:
        """Doesn't wait until it `is_gone`."""
        self._ask_to_leave(grace_s)

    @property
    def is_gone(self) -> bool:
        """Whether the supervisor has left, or lives on as a spare one."""
        return not self._lives()

    def step(self) -> None:
        """Connects, or receives."""
        if self._line is None:
            self._try_to_connect()
            return
        try:
            piece = self._line.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self.hang_up()
            return
        *lines, self._unread = (self._unread + piece).split(b"\n")
        for line in lines:
            self._take(line)

    def hang_up(self) -> None:
        """The connection is closed."""
        if self._line is not None:
            self._line.close()
        self._line = self._connection = None
        self._unread = b""

    def _try_to_connect(self) -> None:
        try:
            self._line = listener.connect(self._folder)
        except OSError:
            self._provide()
            return
        self._line.settimeout(0)
        self._open(self._line)

    def _provide(self) -> None:
        try:
            if self._is_needed():
                self._start_supervisor()
        except OSError as error:
            self._on_failure(str(error))


class NodeAgent:
    """An agent. Its staging and its uploads take no time."""

    def __init__(self, box: Box, enrolment: Enrolment) -> None:
        self.box, self.enrolment, self.plan = box, enrolment, enrolment.plan
        self.facts = AttemptFacts()
        self.wanted: Directive | None = None
        self.is_leaving = self.has_left = False
        self.is_busy = False
        """Whether it is in the middle of a step."""
        box.roots.add(enrolment.root)
        supervisor = Path(enrolment.root, "keeper")
        supervisor.mkdir(parents=True, exist_ok=True)
        self._knows_past = not (supervisor / "round.json").exists()
        self.client = PlayedClient(self, AgentMachine(box))
        self.client.begin(lost_after_s=self.plan.lost_after_s, grace_s=self.plan.grace_s)

    @property
    def member(self) -> Member:
        """As the other nodes see it."""
        number, root = self.enrolment.node, self.enrolment.root
        return Member(number, f"h{number}", f"10.0.0.{number}", root, self.enrolment.checkpoints)

    def status(self) -> AgentStatus | None:
        """What it says of itself; None = an earlier agent's round has an end that it doesn't know yet."""
        return status(self.facts, self.member) if self._knows_past else None

    @property
    def is_alive(self) -> bool:
        """Whether its process is there."""
        return not self.has_left

    def act(self) -> None:
        """Takes one step with its supervisor, and then all those that it can take."""
        self.client.step()
        while not self.is_leaving and (step := next_step(self.facts, self.wanted)):
            self._do(step)
        if self.is_leaving and self.client.is_gone:
            self.client.hang_up()
            self.has_left = True

    def kill(self) -> None:
        """SIGKILL."""
        self.client.hang_up()
        self.has_left = True

    def clean_up(self) -> None:
        """What the host does when the gang is stopped: it ends what is left of the attempt, as `node.agent.cleanup`
        does.
        """
        self.kill()
        self.box.stopping.add(self.enrolment.root)
        folder = f"{self.enrolment.root}/keeper"
        if supervisor := self.box.supervisor_in(folder):
            self.box.bury(supervisor)
        if Path(folder).is_dir():
            AgentMachine(self.box).end_rest(folder)
        shutil.rmtree(self.enrolment.root, ignore_errors=True)

    def _do(self, step: AgentAction) -> None:
        here, wanted = self.facts.round, self.wanted
        grace_s = wanted.grace_s if wanted else 0.0
        match step:
            case AgentAction.BEGIN_ROUND:
                self.facts.round = RoundFacts(wanted.round if wanted else 0)
                self.facts.upload, self.facts.error = WorkState.NONE, ""
                self.facts.staging = WorkState.NONE if self.facts.staging is WorkState.FAILED else self.facts.staging
            case AgentAction.STAGE:
                self.facts.staging = WorkState.DONE
            case AgentAction.HOLD_PORT:
                here.port = 2000 + self.enrolment.node
            case AgentAction.START:
                self._start(wanted.roster if wanted else None)
            case AgentAction.STOP:
                here.stopping = True
                self.box.stopping.add(self.enrolment.root)
                self.client.stop(here.number, grace_s)
            case AgentAction.CLOSE_ROUND:
                self.client.cancel()
                here.asked, here.closed = False, True
            case AgentAction.UPLOAD:
                self.facts.upload = WorkState.DONE
            case AgentAction.LEAVE:
                self.box.stopping.add(self.enrolment.root)
                self.client.retire_if_prepared()
                self.client.leave(grace_s)
                self.is_leaving = True

    def _start(self, roster: Roster | None) -> None:
        ranks = self._ranks(roster) if roster else ()
        self.facts.round.asked = True
        self.box.stopping.discard(self.enrolment.root)
        order = warm_start_fit.order(self.plan, ranks)
        order = order if order.cold else replace(order, outlives=True)
        self.client.start(StartRound(self.facts.round.number, ranks, None, order))

    def _ranks(self, roster: Roster) -> tuple[ProcessStart, ...]:
        root = self.enrolment.root
        specs = render(self.plan, roster, self.enrolment.node)
        return tuple(process_start(replace(one, modules_last=(f"{root}/modules",)), root) for one in specs)

    def on_supervisor(self, state: SupervisorState) -> None:
        """Takes note of what the supervisor says, as `Agent` does."""
        self._knows_past = True
        if state.round < self.facts.round.number or state.round < 0:
            return
        if state.round > self.facts.round.number:
            self.facts.round = RoundFacts(state.round)
        here = self.facts.round
        here.started, here.stopping, here.lost = True, here.stopping or state.stopping, state.lost
        here.exits |= {one.rank: RankExit(**vars(one)) for one in state.exits if one.rank not in here.exits}
        here.over = here.over or state.over
        here.logs_sent = here.over

    def on_trouble(self, sentence: str) -> None:
        """Takes note of a supervisor that can't be had."""
        self._knows_past = True
        self.facts.supervisor_error = sentence
