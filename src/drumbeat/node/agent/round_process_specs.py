"""The processes of each round on a node, described for its supervisor, and their environment or container.

They also need the network that the plan names, and their launcher. `rank_exit.py` determines how a rank ended. The
supervisor starts and stops them, in `supervisor/rank_round.py`: SIGTERM first, and SIGKILL after the job's key
`grace_s`, whose default is in `jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from drumbeat.launchers import render, starter, warm_start_fit
from drumbeat.launchers.container_command import ContainerEngine, contained
from drumbeat.launchers.environment_variables import GANG_SECRET
from drumbeat.launchers.preparation import preparation
from drumbeat.launchers.services import ServiceNode, has_process, service_process, services_on
from drumbeat.launchers.tracking_variables import direct, tracked
from drumbeat.model import folder_layout, home_socket, programs
from drumbeat.model.agent import Enrolment
from drumbeat.model.process import COMMAND_SERVER, MPI_COMMAND_SERVER, ProcessSpec
from drumbeat.model.roster import Member, Roster
from drumbeat.model.scoring_tokens import (
    CA_VARIABLE,
    SECRET_VARIABLE,
    SERVERS_VARIABLE,
    SETTINGS_VARIABLE,
    replica_secret,
)
from drumbeat.model.supervisor import ProcessStart, WarmPoolOrder
from drumbeat.node.agent.rank_exit import RankExits, mark_path
from drumbeat.node.agent.replica_server import before_server
from drumbeat.node.agent.roster_member import seen_from
from drumbeat.node.environments import modules_for_ranks, program_end
from drumbeat.node.host.own_programs import program
from drumbeat.node.images import container_engine
from drumbeat.node.launchers.launcher import NodeRound
from drumbeat.node.launchers.node_launchers import node_launcher
from drumbeat.node.platform import cache_folders, network_interfaces
from drumbeat.node.sidecars import service_addresses
from drumbeat.node.supervisor.client import process_start

if TYPE_CHECKING:
    from drumbeat.model.plan import Container
    from drumbeat.node.inputs.fetching.peer_server import DataServer
    from drumbeat.node.inputs.handed.exchange import EnvironmentExchange
    from drumbeat.node.logs.node_log import NodeLog
    from drumbeat.node.supervisor.node_tasks import NodeTasks


class RoundProcesses:
    """Describes the processes of each round on this node, and provides their environment or container.

    `check`, `provide` and `check_launcher` may take long; the agent's own thread calls everything else.
    """

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment, self._plan = enrolment, enrolment.plan
        self._launcher = node_launcher(enrolment.plan.launcher)
        self._member_fields: dict[str, str] = {}
        """The fields of this node's `Member` that `provide` and `check_launcher` have determined."""
        self._engine: ContainerEngine | None = None
        self.data_server: DataServer | None = None
        """What passes files on to the other nodes of the attempt; None = nothing does."""
        self._exchange: EnvironmentExchange | None = None
        self.exits = RankExits(self._launcher, is_contained=self._plan.container is not None)

    @property
    def confinement(self) -> str:
        """The confinement that the supervisor must use, "" = the best that the machine allows.

        A container engine records the pids of its containers, so it must see the machine's own pids.
        """
        return "subreaper" if self._plan.container else ""

    def check(self) -> None:
        """Raises RefusedError if this node lacks the network that the plan requires."""
        interfaces: list[network_interfaces.Interface] = []
        with contextlib.suppress(OSError):
            interfaces = network_interfaces.interfaces()
        network_interfaces.require(self._plan.network, interfaces)

    @property
    def has_much(self) -> bool:
        """Whether `provide` may have to build or fetch something."""
        return self._plan.python is not None or self._plan.container is not None

    def provide(self, node_tasks: NodeTasks, log: NodeLog, say: Callable[[str], None]) -> None:
        """Provides the environment or container of the ranks. say: receives progress messages. Raises DrumbeatError."""
        if self._plan.python is not None:
            self._make_environment(node_tasks, log, say)
        elif self._plan.nodes > 1 and self._plan.container is None:
            from drumbeat.node.environments.current_python import current_fingerprint

            self._member_fields["environment"] = str(current_fingerprint(self._plan) or "")
        if self._plan.container:
            self._provide_image(self._plan.container, node_tasks, log, say)

    def check_launcher(self) -> None:
        """Checks, after `provide`, that the ranks' environment or container has their launcher.
        Raises DrumbeatError.
        """
        self._member_fields |= self._launcher.check(self._plan, self._enrolment.node, self._engine)

    def _provide_image(
        self, wanted: Container, node_tasks: NodeTasks, log: NodeLog, say: Callable[[str], None]
    ) -> None:
        """Provides the image. Nodes compare the layers of a pulled image; of an image that each builds, the Python in
        it.
        """
        from drumbeat.node.images import inspection
        from drumbeat.node.images.image_puller import ImagePuller

        engine = self._find_engine(wanted)
        wanted = self._plan.container or wanted
        image = ImagePuller(self._enrolment, engine, log, node_tasks).have(wanted, say)
        self._member_fields |= {"image": image.digest, "layers": "" if wanted.build else image.layers}
        if wanted.build and self._plan.nodes > 1:
            self._member_fields["environment"] = str(inspection.python_in(engine, wanted.image) or "")

    def _find_engine(self, wanted: Container) -> ContainerEngine:
        """Finds the node's engine and the image's name, once. Another agent may have provided the image."""
        if self._engine is None:
            self._engine = container_engine.find()
            if wanted.build is None:
                named = replace(wanted, image=container_engine.full_name(self._engine, wanted.image))
                self._plan = replace(self._plan, container=named)
        return self._engine

    def _make_environment(self, node_tasks: NodeTasks, log: NodeLog, say: Callable[[str], None]) -> None:
        from drumbeat.node.environments import job_layer
        from drumbeat.node.environments.environment_builder import EnvironmentBuilder

        wanted, plan = self._plan.python, self._enrolment.plan
        if wanted is not None:
            self._exchange = exchange = self._new_exchange(log)
            environment = EnvironmentBuilder(wanted, self._enrolment.root, log, node_tasks, say, exchange).provide()
            layer = job_layer.provide(environment.folder, self._enrolment.root)
            self._plan = replace(
                self._plan,
                path_first=(f"{layer}/bin",),  # Instead of the server's own interpreter.
                variables={**plan.variables, "VIRTUAL_ENV": layer},
            )
            self._member_fields["environment"] = str(environment.fingerprint) if plan.nodes > 1 else ""

    def finish(self, progress: Callable[[str], None]) -> None:
        """Waits, after the ranks, for what other nodes and later jobs need of this node. Runs in any thread."""
        if self._exchange is not None:
            self._exchange.finish(progress)

    def _new_exchange(self, log: NodeLog) -> EnvironmentExchange | None:
        """How environments are handed on among machines. Those of the server's own machine share their folder."""
        if all(home_socket.socket_path(address) for address in self._enrolment.servers):
            return None
        from drumbeat.node.inputs.handed.exchange import EnvironmentExchange

        return EnvironmentExchange(self._enrolment, self.data_server, log.say)

    def member(self, member: Member) -> Member:
        """Returns the node's entry in the roster, completed by `provide` and `check_launcher`."""
        return replace(member, **self._member_fields)

    def preparation(self, member: Member, number: int) -> ProcessSpec | None:
        """Returns the job's preparation on this node, in the ranks' environment or container;
        None = the job has none.
        """
        self._resolve()
        modules_for_ranks.provide(self._enrolment.root)
        spec = preparation(self._plan, member, self._enrolment.attempt, number)
        return spec and self._contained(self._with_modules(spec), member)

    def _resolve(self) -> None:
        """Fills into the plan the paths and links that are known only after staging."""
        if any(one.in_folder for one in self._plan.inputs):
            from drumbeat.node.inputs.mounting.in_place_record import as_seen

            self._plan = as_seen(self._plan, self._enrolment.root)
        if any(one.mode == "direct" for one in self._plan.outputs):
            from drumbeat.node.inputs.mounting.direct_outputs import with_links

            self._plan = with_links(self._plan, self._enrolment.root)

    def _contained(self, spec: ProcessSpec, member: Member, port: int = 0) -> ProcessSpec:
        """Returns the process in the job's container, if it has one. Inputs may be links into the node's cache.

        port: a free one of the node's. A replica that stands in front of its image's own server is in no container.
        """
        if self._plan.container is None:
            return spec
        engine = self._find_engine(self._plan.container)
        container_engine.note(engine, self._enrolment.root)
        settings = self._plan.variables.get(SETTINGS_VARIABLE, "")
        if settings and "behind" in json.loads(settings):
            return before_server(spec, self._plan, member, engine, port)
        folders = (cache_folders.data_folder(), *_router_folders(settings))
        shown = [folder for folder in folders if os.path.isdir(folder)]
        return contained(spec, self._plan, member, engine, shown)

    def processes(self, roster: Roster, metrics: str = "") -> tuple[list[ProcessStart], ProcessStart | None]:
        """Returns the processes for the supervisor: the ranks, and the launcher's own process. Raises DrumbeatError.

        roster: whole, or with this node's own entry.

        metrics: the address of the node's metrics endpoint without the rank, "" = none.
        """
        node, root = self._enrolment.node, self._enrolment.root
        self._resolve()
        roster = seen_from(roster, node, self._plan)
        modules_for_ranks.provide(root)
        ranks = [
            self._with_replica_secret(self._with_modules(self._tracked(each, metrics)))
            for each in render(self._plan, roster, node)
        ]
        ranks = [replace(each, set={**each.set, GANG_SECRET: self._gang_secret}) for each in ranks]
        ranks = [self._contained(self._with_end_mark(each), roster.member(node), roster.port) for each in ranks]
        beside = starter(self._plan, roster, node)
        round_ = NodeRound(self._plan, roster, node, self._enrolment.shared_secret)
        ranks = self._launcher.wrap(round_, ranks)
        self._launcher.prepare(round_)
        if beside is None:
            return [process_start(each, root) for each in ranks], None
        beside = _runnable(self._with_modules(self._tracked(beside, metrics)))
        return [process_start(each, root) for each in ranks], process_start(beside, root)

    def services(self, roster: Roster) -> list[ProcessStart]:
        """Returns the processes of the node's services, each with its port or socket. Raises OSError."""
        node, root = self._enrolment.node, self._enrolment.root
        here = services_on(self._plan, node)
        if not here:
            return []
        given = service_addresses.assign(here, root)
        roster = seen_from(roster, node, self._plan)
        own = ServiceNode(self._with_modules(render(self._plan, roster, node)[0]), root, self._enrolment.shared_secret)
        made = [service_process(self._plan, one, own, given[one.name]) for one in here if has_process(one)]
        return [process_start(self._contained(each, roster.member(node)), root) for each in made]

    def warm_pool_order(self, ranks: Sequence[ProcessStart]) -> WarmPoolOrder:
        """Returns the warm workers that the supervisor prepares for the round after that of these ranks."""
        order = warm_start_fit.order(self._plan, ranks)
        if order.cold:
            return order
        from drumbeat.node.supervisor import spare_folders

        return replace(order, outlives=spare_folders.are_kept(self._enrolment))

    def _with_modules(self, spec: ProcessSpec) -> ProcessSpec:
        return replace(spec, modules_last=(folder_layout.modules_folder(self._enrolment.root),))

    def _with_replica_secret(self, spec: ProcessSpec) -> ProcessSpec:
        """Gives a replica of a deployment where the router is, and what each proves itself to the other with."""
        if SETTINGS_VARIABLE not in self._plan.variables:
            return spec
        given = {
            SECRET_VARIABLE: replica_secret(self._enrolment.secret),
            SERVERS_VARIABLE: " ".join(self._enrolment.servers),
            CA_VARIABLE: self._enrolment.ca,
        }
        return replace(spec, set={**spec.set, **given})

    @property
    def _gang_secret(self) -> str:
        return hmac.new(self._enrolment.shared_secret.encode(), b"ranks", hashlib.sha256).hexdigest()

    def _with_end_mark(self, spec: ProcessSpec) -> ProcessSpec:
        mark = mark_path(f"{self._enrolment.root}/{spec.log}")
        return replace(spec, set={**spec.set, program_end.VARIABLE: mark})

    def _tracked(self, spec: ProcessSpec, metrics: str) -> ProcessSpec:
        first = self._plan.on(self._enrolment.node)[0].rank
        return direct(tracked(spec, self._plan, metrics, first), os.environ)

    def clear(self) -> None:
        """Removes what the launcher created for a finished round. `container_engine.clear_all` removes containers."""
        self._launcher.clear(self._enrolment.root)
        self.exits.end_round()


def _router_folders(settings: str) -> list[str]:
    """Returns the folders with the router's sockets for replicas, by a replica's settings (JSON); "" = it is none."""
    addresses: list[str] = json.loads(settings)["router"]["addresses"] if settings else []
    return [os.path.dirname(path) for path in map(home_socket.socket_path, addresses) if path]


def _runnable(starter: ProcessSpec) -> ProcessSpec:
    """Returns the process with the path of the command server, which is a program of drumbeat."""
    if starter.role not in (COMMAND_SERVER, MPI_COMMAND_SERVER):
        return starter
    return replace(starter, argv=(*program(programs.COMMAND_SERVER), *starter.argv))
