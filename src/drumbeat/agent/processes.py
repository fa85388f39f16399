"""What the ranks of a node need of it beside their files: a network, what they run in, an MPI, and their processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from drumbeat.agent.ground import cache_folders, network
from drumbeat.agent.keeper.client import process_start
from drumbeat.agent.launchers.mpi import find
from drumbeat.agent.launchers.mpi import place as mpi_place
from drumbeat.agent.launchers.ray import find as ray_found
from drumbeat.agent.launchers.ray import place as ray_place
from drumbeat.agent.launchers.remote import place
from drumbeat.agent.node import seen_from
from drumbeat.agent.runtimes import containers
from drumbeat.host.program import program
from drumbeat.launch import hosts, render, starter
from drumbeat.launch.containers import Engine, contained
from drumbeat.launch.preparation import preparation
from drumbeat.protocol import programs
from drumbeat.protocol.agent import Enrolment
from drumbeat.protocol.keeper import ProcessStart
from drumbeat.protocol.process import COMMAND_SERVER, ProcessSpec
from drumbeat.protocol.roster import Member, Roster

if TYPE_CHECKING:
    from drumbeat.agent.keeper.errands import Errands
    from drumbeat.agent.logs.nodelog import NodeLog
    from drumbeat.protocol.plan import Container


class Preparing:
    """`check` and `provide` may take their time; the rest is for the agent's own thread."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment, self._plan = enrolment, enrolment.plan
        self._mpi, self._environment = "", ""
        self._note, self._ray_note = f"{enrolment.root}/mpi", f"{enrolment.root}/ray"
        self._engine: Engine | None = None
        self._image, self._layers = "", ""

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

    @property
    def has_much(self) -> bool:
        """Whether `provide` has more to do than to look around."""
        return self._plan.python is not None or self._plan.container is not None

    def provide(self, errands: Errands, log: NodeLog, say: Callable[[str], None]) -> None:
        """Has what the ranks run in: an environment or an image, and an MPI in it. say: is told what goes on.

        Raises DrumbeatError when it can't be had.
        """
        if self._plan.python is not None:
            self._make_environment(errands, log, say)
        elif self._plan.nodes > 1 and self._plan.container is None:
            from drumbeat.agent.runtimes.environments.current import of_current

            self._environment = str(of_current(self._plan) or "")
        if self._plan.container:
            self._have_image(self._plan.container, errands, log, say)
        ray_found.check(self._plan, self._enrolment.node)
        if self._plan.launcher == "mpi":
            self._mpi = find.find(self._plan)
            if self._plan.container and self._engine:
                find.require_inside(self._mpi, self._engine, self._plan.container.image)

    def _have_image(self, wanted: Container, errands: Errands, log: NodeLog, say: Callable[[str], None]) -> None:
        """Nodes that were given the same image have it alike; those that build one each compare the Python in it."""
        from drumbeat.agent.runtimes.images import inspection
        from drumbeat.agent.runtimes.images.pull import Having

        self._engine = containers.find()
        image = Having(self._enrolment, self._engine, log, errands).have(wanted, say)
        self._image, self._layers = image.digest, "" if wanted.build else image.layers
        if wanted.build and self._plan.nodes > 1:
            self._environment = str(inspection.python_in(self._engine, wanted.image) or "")

    def _make_environment(self, errands: Errands, log: NodeLog, say: Callable[[str], None]) -> None:
        from drumbeat.agent.runtimes.environments.make import Making

        wanted, plan = self._plan.python, self._enrolment.plan
        if wanted is not None:
            made = Making(wanted, self._enrolment.root, log, errands, say).provide()
            self._plan = replace(
                self._plan,
                path_first=(made.path,),  # The server's own interpreter has no part in it.
                variables={**plan.variables, "VIRTUAL_ENV": made.folder},
            )
            self._environment = str(made.fingerprint) if plan.nodes > 1 else ""

    def member(self, known: Member) -> Member:
        """What this node is to the others, with what `provide` found."""
        told = {"mpi": self._mpi, "environment": self._environment, "image": self._image, "layers": self._layers}
        return replace(known, **told) if any(told.values()) else known

    def preparation(self, member: Member, number: int) -> ProcessSpec | None:
        """The job's preparation on this node, in what its ranks run in; None = it has none."""
        self._look()
        spec = preparation(self._plan, member, self._enrolment.attempt, number)
        return spec and self._contained(spec, member)

    def _look(self) -> None:
        """What its inputs are here may be known only now."""
        if any(one.in_folder for one in self._plan.inputs):
            from drumbeat.agent.inputs.mounting.in_place import as_seen

            self._plan = as_seen(self._plan, self._enrolment.root)
        if any(one.mode == "direct" for one in self._plan.outputs):
            from drumbeat.agent.inputs.mounting.direct import with_links

            self._plan = with_links(self._plan, self._enrolment.root)

    def _contained(self, spec: ProcessSpec, member: Member) -> ProcessSpec:
        """The process in the job's container, if it has one. Inputs may be links into the node's cache."""
        if self._plan.container is None:
            return spec
        self._engine = self._engine or containers.find()  # Another agent may have provided it.
        containers.note(self._engine, self._enrolment.root)
        shown = [folder for folder in (cache_folders.data_folder(),) if os.path.isdir(folder)]
        return contained(spec, self._plan, member, self._engine, shown)

    def processes(self, roster: Roster) -> tuple[list[ProcessStart], ProcessStart | None]:
        """What the keeper is to start: the ranks, and the launcher's own process. Raises DrumbeatError."""
        node, root = self._enrolment.node, self._enrolment.root
        self._look()
        roster = seen_from(roster, node, self._plan)
        ranks = [self._contained(each, roster.members[node]) for each in render(self._plan, roster, node)]
        beside = starter(self._plan, roster, node)
        if self._plan.ray and not self._plan.ray.address:
            ranks = self._clustered(ranks, roster)
        if self._plan.launcher == "mpi":
            mpi_place.note(self._note, roster, node)
            mpi_place.make(self._plan, roster, node, self._enrolment.secret)
        if any(hosts.VARIABLE in each.set for each in ranks):
            place.make(self._plan, roster, node, self._enrolment.secret)
        return [process_start(each, root) for each in ranks], process_start(_runnable(beside), root) if beside else None

    def _clustered(self, ranks: list[ProcessSpec], roster: Roster) -> list[ProcessSpec]:
        """Those of a Ray cluster, which wait for one another."""
        node, python = self._enrolment.node, ray_found.python(self._plan)
        ray_place.note(self._ray_note, roster, node)
        ray_place.make(self._plan, roster, node, self._enrolment.secret)
        return [ray_place.waiting(each, self._plan, roster, node, python) for each in ranks]

    def clear(self) -> None:
        """The round is over. What is left of its containers is `containers.clear_all`'s."""
        mpi_place.clear_noted(self._note)
        ray_place.clear_noted(self._ray_note)


def _runnable(starter: ProcessSpec) -> ProcessSpec:
    """A door is a program of ours."""
    is_door = starter.role in ("door", COMMAND_SERVER)
    return replace(starter, argv=(*program(programs.COMMAND_SERVER), *starter.argv)) if is_door else starter
