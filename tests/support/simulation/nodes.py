"""A node of a gang, played: an agent and its ranks, which outlive the server and hear of it late or never."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from drumbeat.model.agent import AgentStatus, Directive, Order, Phase, RankExit
from drumbeat.model.conditions import ConditionState
from drumbeat.model.roster import Member
from drumbeat.ports.engines import Gang

MISSES_A_PEER = 3
"""The exit code of a rank that failed because another one was gone, and says so."""
_WORDS = {MISSES_A_PEER: "RuntimeError: Connection closed by peer"}


@dataclass
class Node:
    """What one node does. running: ranks at work. started: rounds whose ranks were ever started here.

    done: how the ranks of each of them really ended. bereft: those whose supervisor was killed, or gave them up.
    """

    gang: Gang
    number: int
    phase: Phase = Phase.ENROLLED
    round: int = 0
    exits: tuple[RankExit, ...] = ()
    running: list[int] = field(default_factory=list[int])
    started: list[int] = field(default_factory=list[int])
    done: dict[int, list[RankExit]] = field(default_factory=dict[int, list[RankExit]])
    bereft: set[int] = field(default_factory=set[int])
    error: str = ""
    lost: bool = False
    serial: int = 0
    is_cut_off: bool = False
    server: int = 0
    """Which of the servers it tries first."""
    has_left: bool = False
    is_stopping: bool = False
    told: tuple[str, ...] = ()
    """The servers that one of them last told it of."""
    said: list[AgentStatus] = field(default_factory=list[AgentStatus])
    """Everything it ever said, for messages that come late or twice."""
    conditions: tuple[ConditionState, ...] = ()
    """What it has seen of those of its job: on its disk, whatever becomes of its agent."""
    unread: tuple[ConditionState, ...] = ()
    """The same, as its agent hasn't read it yet: at the latest, it does when the ranks have ended."""
    agents: int = 1
    """How many agents it has had: each has a proof of its own."""

    @property
    def ranks(self) -> list[int]:
        """The ranks that belong here."""
        return [r.rank for r in self.gang.plan.ranks if r.node == self.number]

    @property
    def proof(self) -> str:
        """What its agent has in its memory, and another agent hasn't."""
        return f"{self.gang.job} {self.gang.attempt} {self.number} {self.agents}"

    @property
    def can_speak(self) -> bool:
        """Whether its agent knows how far it is."""
        return True

    def look(self) -> None:
        """Takes note of what its processes do."""

    @property
    def servers(self) -> set[str]:
        """Those that it knows."""
        return {*self.gang.servers, *self.told}

    def status(self) -> AgentStatus:
        """How far it is, as it would say it now: with a new serial only if there is anything new in it."""
        member = Member(
            self.number, f"h{self.number}", f"10.0.0.{self.number}", f"/{self.gang.job}.{self.gang.attempt}", "/c"
        )
        if self.unread and not self.running:
            self.conditions, self.unread = self.unread, ()
        now = AgentStatus(
            self.phase, self.round, member, 2000 + self.number, self.exits, error=self.error, lost=self.lost,
            serial=self.serial, handover=hashlib.sha256(self.proof.encode()).hexdigest(),
            conditions=self.conditions,
        )  # fmt: skip
        if not self.said or now != self.said[-1]:
            self.serial += 1
            now = replace(now, serial=self.serial)
            self.said.append(now)
        return now

    def obey(self, directive: Directive) -> None:
        """What an agent does about a directive; hearing it twice changes nothing."""
        self.told = directive.servers
        match directive.order:
            case Order.PREPARE | Order.RUN if directive.round > self.round and self.running:
                self.is_stopping = True
            case Order.PREPARE if directive.round > self.round:
                self._begin(directive.round)
            case Order.RUN if directive.round > self.round or (
                directive.round == self.round and self.phase is Phase.READY
            ):
                self._begin(directive.round)
                self.phase, self.running = Phase.RUNNING, self.ranks
                self.started.append(directive.round)
            case Order.STOP if directive.round >= self.round:
                self._stop(directive)
            case Order.UPLOAD if directive.round >= self.round and self.phase not in (Phase.RUNNING, Phase.UPLOADED):
                self.phase = Phase.UPLOADED
            case Order.LEAVE:
                self.leave()
            case _:
                pass

    def _begin(self, number: int) -> None:
        self.round, self.phase, self.exits = number, Phase.READY, ()
        self.lost = self.is_stopping = False

    def _stop(self, directive: Directive) -> None:
        if self.phase is Phase.RUNNING:
            self.is_stopping = True
        elif directive.round > self.round or self.phase in (Phase.ENROLLED, Phase.STAGING, Phase.READY):
            self._begin(directive.round)
            self.phase = Phase.ENDED

    def leave(self) -> None:
        """Ends its ranks and itself."""
        self.running, self.has_left = [], True

    def end_rank(self, which: int, code: int, at: float) -> None:
        """One of its ranks ends; one that serves never does so by itself and well."""
        able = [rank for rank in self.running if code or self.is_stopping or rank in self.gang.plan.workers]
        if not able:
            return
        rank = able[which % len(able)]
        self.running.remove(rank)
        ended = RankExit(rank, code, None, at, len(self.exits), is_stopped=self.is_stopping, tail=_WORDS.get(code, ""))
        self.exits = (*self.exits, ended)
        self.done.setdefault(self.round, []).append(ended)
        if not self.running:
            self.phase = Phase.ENDED

    def end_stopped(self, at: float) -> None:
        """SIGTERM, or SIGKILL after the grace time, has done its work."""
        while self.is_stopping and self.running:
            self.end_rank(0, 143, at)

    def lose_supervisor(self) -> None:
        """The supervisor is killed, and its ranks with it; the agent finds out."""
        if self.phase is Phase.RUNNING:
            self.running, self.phase, self.lost = [], Phase.ENDED, True
            self.bereft.add(self.round)

    def fail_staging(self) -> None:
        """The disk is full, or an input has vanished."""
        if self.phase is Phase.ENROLLED:
            self.phase, self.error = Phase.STAGING, "no space left on the node"

    def forget(self) -> None:
        """The agent is killed and started again: it knows what its supervisor does, which was told of no round that has
        not begun. It doesn't know that it was ready for the next one, nor that it has sent its outputs.
        """
        self.agents += 1
        kept = self.started[-1] if self.started else 0
        if self.phase is not Phase.RUNNING:
            self._begin(kept)
            self.phase, self.error = Phase.ENDED if kept else Phase.ENROLLED, ""
            self.exits, self.lost = tuple(self.done.get(kept, ())), kept in self.bereft
