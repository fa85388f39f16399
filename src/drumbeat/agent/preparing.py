"""What the ranks of a node need of it beside their files: a network that is there, an MPI, and their processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace

from drumbeat.agent import containers, network
from drumbeat.agent.keeping import Message, rank_message
from drumbeat.agent.mpi import found, place
from drumbeat.agent.node import seen_from
from drumbeat.host.program import program
from drumbeat.launch import render, starter
from drumbeat.launch.containers import Engine, contained
from drumbeat.protocol.agent import Enrolment
from drumbeat.protocol.process import ProcessSpec
from drumbeat.protocol.roster import Member, Roster


class Preparing:
    """`check` may take its time; the rest is for the agent's own thread."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment, self._plan = enrolment, enrolment.plan
        self._mpi = ""
        self._note = f"{enrolment.root}/mpi"
        self._engine: Engine | None = None
        self.say: Callable[[str], None] = lambda _line: None
        """Is told what goes on, while `check` takes its time."""

    @property
    def confinement(self) -> str:
        """How the keeper has to hold the ranks, "" = as it likes.

        A container engine keeps the pids of what it runs: it must see them as the machine does.
        """
        return "subreaper" if self._plan.container else ""

    def check(self) -> None:
        """Raises RefusedError when the plan wants something that this node doesn't have."""
        there: list[network.Interface] = []
        with contextlib.suppress(OSError):
            there = network.interfaces()
        network.require(self._plan.network, there)
        if self._plan.launcher == "mpi":
            self._mpi = found.find(self._plan)
        if self._plan.container:
            self._engine = containers.find()
            containers.fetch(self._engine, self._plan.container.image, self.say)

    def member(self, known: Member) -> Member:
        """What this node is to the others, with what `check` found."""
        return replace(known, mpi=self._mpi) if self._mpi else known

    def processes(self, roster: Roster) -> tuple[list[Message], Message | None]:
        """What the keeper is to start: the ranks, and the launcher's own process. Raises DrumbeatError."""
        node, root = self._enrolment.node, self._enrolment.root
        roster = seen_from(roster, node, self._plan)
        ranks = render(self._plan, roster, node)
        if self._plan.container:
            engine = self._engine or containers.find()  # Another agent has made the check.
            ranks = [contained(each, self._plan, roster.members[node], engine) for each in ranks]
        beside = starter(self._plan, roster, node)
        if self._plan.launcher == "mpi":
            with open(self._note, "w", encoding="utf-8") as file:
                file.write(place.make(self._plan, roster, node, self._enrolment.secret))
        return [rank_message(each, root) for each in ranks], rank_message(_runnable(beside), root) if beside else None

    def clear(self) -> None:
        """The round is over."""
        if self._plan.container:
            containers.clear(self._engine or containers.find(), self._enrolment.root)
        with contextlib.suppress(FileNotFoundError):
            with open(self._note, encoding="utf-8") as file:
                place.clear(file.read(), self._enrolment.node)
            os.unlink(self._note)


def _runnable(starter: ProcessSpec) -> ProcessSpec:
    """A door is a program of ours."""
    is_door = starter.role == "door"
    return replace(starter, argv=(*program("drumbeat.agent.mpi.door"), *starter.argv)) if is_door else starter
