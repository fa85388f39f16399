"""What the ranks of a node need of it beside their files: a network that is there, an MPI, and their processes."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace

from drumbeat.agent import network
from drumbeat.agent.keeping import Message, rank_message
from drumbeat.agent.mpi import found, place
from drumbeat.agent.node import seen_from
from drumbeat.host.program import program
from drumbeat.launch import render, starter
from drumbeat.protocol.agent import Enrolment
from drumbeat.protocol.process import ProcessSpec
from drumbeat.protocol.roster import Member, Roster


class Preparing:
    """`check` may take its time; the rest is for the agent's own thread."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment, self._plan = enrolment, enrolment.plan
        self._mpi = ""
        self._note = f"{enrolment.root}/mpi"

    def check(self) -> None:
        """Raises RefusedError when the plan wants something that this node doesn't have."""
        there: list[network.Interface] = []
        with contextlib.suppress(OSError):
            there = network.interfaces()
        network.require(self._plan.network, there)
        if self._plan.launcher == "mpi":
            self._mpi = found.find(self._plan)

    def member(self, known: Member) -> Member:
        """What this node is to the others, with what `check` found."""
        return replace(known, mpi=self._mpi) if self._mpi else known

    def processes(self, roster: Roster) -> tuple[list[Message], Message | None]:
        """What the keeper is to start: the ranks, and the launcher's own process. Raises DrumbeatError."""
        node, root = self._enrolment.node, self._enrolment.root
        roster = seen_from(roster, node, self._plan)
        ranks = render(self._plan, roster, node)
        beside = starter(self._plan, roster, node)
        if self._plan.launcher == "mpi":
            with open(self._note, "w", encoding="utf-8") as file:
                file.write(place.make(self._plan, roster, node, self._enrolment.secret))
        return [rank_message(each, root) for each in ranks], rank_message(_runnable(beside), root) if beside else None

    def clear(self) -> None:
        """The round is over."""
        with contextlib.suppress(FileNotFoundError):
            with open(self._note, encoding="utf-8") as file:
                place.clear(file.read(), self._enrolment.node)
            os.unlink(self._note)


def _runnable(starter: ProcessSpec) -> ProcessSpec:
    """A door is a program of ours."""
    is_door = starter.role == "door"
    return replace(starter, argv=(*program("drumbeat.agent.mpi.door"), *starter.argv)) if is_door else starter
