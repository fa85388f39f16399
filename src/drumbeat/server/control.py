"""Creates the services of a server, and starts and stops its threads."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol

from drumbeat.core.lifecycle.events import SendNotice
from drumbeat.core.models.statement import new_key
from drumbeat.model.errors import StorageError
from drumbeat.ports.clock import Clock
from drumbeat.ports.data import DataAccess
from drumbeat.ports.engines import Engine
from drumbeat.ports.space import MachineCaches
from drumbeat.resources.kinds import KINDS
from drumbeat.server.computes.agent_addresses import AgentAddresses, Endpoints
from drumbeat.server.computes.capacity_record import CapacityRecord
from drumbeat.server.computes.compute_watch import ComputeWatch
from drumbeat.server.computes.computes import Computes
from drumbeat.server.computes.engines import EngineMaker, Engines, no_engines
from drumbeat.server.computes.node_states import NodeStates
from drumbeat.server.computes.prices import Prices
from drumbeat.server.computes.scaler import Scaler
from drumbeat.server.data.data_assets import DataAssets
from drumbeat.server.data.datastores import Datastores
from drumbeat.server.data.inputs import JobInputs
from drumbeat.server.data.job_output_reader import JobOutputReader
from drumbeat.server.data.manifests import ManifestDataAccess
from drumbeat.server.database import SqlStore
from drumbeat.server.endpoints.catalog import EndpointCatalog
from drumbeat.server.endpoints.deployment_watch import DeploymentWatch
from drumbeat.server.endpoints.endpoint_requests import EndpointRequests
from drumbeat.server.endpoints.online_endpoints import OnlineEndpoints
from drumbeat.server.endpoints.replica_jobs import Replicas, RouterPlace
from drumbeat.server.endpoints.router_program import RouterProgram
from drumbeat.server.environments.handed_environments import HandedEnvironments
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.jobs.child_effects import Children
from drumbeat.server.jobs.child_watch import ChildWatch
from drumbeat.server.jobs.job_labels import JobLabels
from drumbeat.server.jobs.jobs import Jobs
from drumbeat.server.jobs.ledger import Ledger
from drumbeat.server.jobs.log_reader import LogReader
from drumbeat.server.jobs.planner import Planner
from drumbeat.server.jobs.resumptions import Resumptions
from drumbeat.server.jobs.time_book import JobReadings, TimeBook
from drumbeat.server.jobs.use_history import UseHistories
from drumbeat.server.loop.bus import Bus, node_topic
from drumbeat.server.loop.lease_wait import LeaseWait
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.outbox import Outbox
from drumbeat.server.loop.pending_outputs import PendingOutputs
from drumbeat.server.metrics.earlier_models import EarlierModels
from drumbeat.server.metrics.event_files.event_files import EventFiles
from drumbeat.server.metrics.event_files.reader import TensorBoardReader
from drumbeat.server.metrics.experiments import Experiments
from drumbeat.server.metrics.metrics import MetricPlace, Metrics
from drumbeat.server.metrics.mlflow_target import MlflowTarget
from drumbeat.server.metrics.outlooks import Outlooks
from drumbeat.server.metrics.overview import Overviews
from drumbeat.server.metrics.run_copies import RunCopies
from drumbeat.server.metrics.run_table.run_table import RunTable
from drumbeat.server.metrics.run_table.saved_views import CardSizes, SavedCharts, SavedViews
from drumbeat.server.models.lineage import LineageReader
from drumbeat.server.models.mlflow_rows import ModelRows
from drumbeat.server.models.models import Models
from drumbeat.server.models.run_file_reader import RunFileReader
from drumbeat.server.nodes.agents import Agents
from drumbeat.server.nodes.engine_gangs import GangFactory, Secrets
from drumbeat.server.nodes.gang_watch import PAUSED_AFTER_S, GangWatch
from drumbeat.server.nodes.hang_watch import HangWatch
from drumbeat.server.nodes.heartbeats import Heartbeats
from drumbeat.server.nodes.node_requests import NodeRequests
from drumbeat.server.nodes.start_gang import GangStarter
from drumbeat.server.nodes.stop_gang import GangStopper
from drumbeat.server.nodes.unknown_jobs import UnknownJobs
from drumbeat.server.notices.due_notices import condition_notices, end_notices
from drumbeat.server.notices.notice_targets import NoticeTargets
from drumbeat.server.notices.send_notice import NoticeSender
from drumbeat.server.outputs.direct_links import DirectOutputs
from drumbeat.server.outputs.events_writer import EventsWriter
from drumbeat.server.outputs.output_publisher import OutputPublisher
from drumbeat.server.outputs.publish_and_register import Publisher
from drumbeat.server.pipelines.earlier_results import EarlierResults
from drumbeat.server.pipelines.steps import Steps
from drumbeat.server.resources.catalogs import OWN_CLASSES, Catalogs
from drumbeat.server.resources.components import Components
from drumbeat.server.resources.environments import Environments
from drumbeat.server.resources.registries import Registries
from drumbeat.server.resources.resources import ResourceService
from drumbeat.server.resources.versions import VersionService
from drumbeat.server.schedules.runner import ScheduleRunner
from drumbeat.server.schedules.schedules import Schedules
from drumbeat.server.space.space import Space
from drumbeat.server.sweeps.cpu_use import BusyShares
from drumbeat.server.sweeps.propose_trials import Proposals, Samplers, no_samplers
from drumbeat.server.sweeps.trial_reports import SweepReports
from drumbeat.server.users.job_users import JobUsers
from drumbeat.server.users.quotas import Quotas
from drumbeat.server.users.tokens import Tokens

if TYPE_CHECKING:
    from drumbeat.server.metrics.mlflow_choice import MlflowFile
    from drumbeat.server.metrics.mlflow_server import HttpMlflowServer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Setting:
    """The configuration of a `Control`."""

    store: SqlStore
    artifacts: FolderArtifacts
    engines: Mapping[str, Engine]
    """Engines of the server's own computes."""
    clock: Clock
    key: bytes
    """The server's secret, from which those of attempts are derived. Servers that share a database share it."""
    programs: str = ""
    """The folder that comes first on the ranks' PATH in the environment `current`."""
    make_engine: EngineMaker = no_engines
    """Creates the engines of computes that users create."""
    data: DataAccess | None = None
    """Access to stores with inputs; None = none."""
    datastores: Datastores | None = None
    """The datastores for `data`; None = those in the database."""
    endpoints: Endpoints = field(default_factory=Endpoints)
    """The addresses of this server for agents."""
    metrics: MetricPlace | None = None
    """The place of the metrics; None = metrics are refused."""
    event_reader: TensorBoardReader | None = None
    """Reads TensorBoard's event files among the outputs of jobs; None = they aren't read."""
    mlflow: MlflowFile | None = None
    """The setting of the external MLflow server; None = it can't be set."""
    samplers: Samplers = no_samplers
    """The samplers of sweeps that search by results."""
    router: RouterProgram | None = None
    """The router of online endpoints; None = there are no online endpoints."""
    caches: MachineCaches | None = None
    """Caches of the server's machine; None = `prune` and `usage` leave them out."""
    registry_key: Callable[[], bytes] = field(default_factory=lambda: cache(new_key))
    """Returns the private key, in PEM, by which models are signed. Servers that share a database share it."""
    unknown_jobs: UnknownJobs = field(default_factory=UnknownJobs)
    """The jobs of which a restored home knows only by their agents."""


class Startable(Protocol):
    """A service with threads of its own."""

    def start(self) -> None:
        """Starts the threads."""
        ...

    def stop(self) -> None:
        """Ends the threads."""
        ...


class Control:
    """The services of a server: jobs, agents, computes, catalogs, and the bus for changes."""

    def __init__(self, setting: Setting) -> None:  # noqa: PLR0915 - a statement for each service
        store, clock = setting.store, setting.clock
        self.setting, self.store, self.artifacts, self.bus = setting, store, setting.artifacts, Bus()
        heartbeats = self.heartbeats = Heartbeats(clock, PAUSED_AFTER_S)
        self.loop = Loop(store, clock, self.bus, setting.endpoints.address, setting.endpoints.url)
        self.standby = LeaseWait(self.loop, self._activate)
        self.engines = Engines(self.loop, setting.engines, setting.make_engine, setting.unknown_jobs.note)
        self.addresses = AgentAddresses(self.loop, self.engines, setting.endpoints)
        outputs = JobOutputReader(setting.artifacts, ManifestDataAccess(setting.data) if setting.data else None)
        self.data: DataAccess = RunFileReader(setting.artifacts.of_runs, outputs)
        self.pending_outputs = PendingOutputs(self.loop)
        self.catalogs = self._catalogs()
        self.direct = DirectOutputs(self.data, lambda name: self.loop.record(name).job)
        self.inputs = JobInputs(
            setting.artifacts,
            self.data,
            self.direct.job_of,
            self.catalogs.data.require_registered,
            self.engines.is_visible,
        )
        self.secrets, self.environments = Secrets(setting.key), HandedEnvironments(setting.artifacts.environments)
        self.metrics = Metrics(self.loop, self.secrets, setting.metrics)
        self.model_rows = self._model_rows()
        event_files = EventFiles(self.metrics, setting.artifacts, setting.event_reader)
        events_writer = EventsWriter(store, setting.artifacts, [event_files.take, self.metrics.note_end])
        self.mlflow = MlflowTarget(setting.mlflow, self._copies_to)
        gangs = GangFactory(self.secrets, self.addresses)
        planner = Planner(self.loop, self.engines, self.catalogs, self.direct, setting.programs)
        self.quotas = Quotas(self.loop)
        self.notice_sender = NoticeSender(self.loop, self.catalogs.notices)
        self.loop.closing_effects = partial(end_notices, self.catalogs.notices)
        self.loop.notice_effects = partial(condition_notices, self.catalogs.notices)
        resumptions = Resumptions(self.loop, self.engines, self.metrics.last_save)
        self.jobs = Jobs(self.loop, planner, self.engines, setting.artifacts, events_writer, self.quotas, resumptions)
        proposals = Proposals(self.loop, setting.samplers)
        steps = Steps(self.loop, self.jobs, EarlierResults(store, self.data, self.engines.is_visible))
        endpoint_catalog, router = EndpointCatalog(store, setting.key), setting.router
        replicas = Replicas(
            self.loop,
            self.jobs,
            endpoint_catalog,
            self.catalogs.models,
            lambda: RouterPlace(router.replica_addresses, router.replica_port) if router else RouterPlace(),
        )
        self.endpoints = OnlineEndpoints(
            self.loop, endpoint_catalog, self.jobs, planner, self.catalogs.models, replicas, router
        )
        self.deployment_watch = (
            DeploymentWatch(self.loop, self.endpoints, self.jobs, self.secrets, self.addresses, router)
            if router
            else None
        )
        self.endpoints.log_tail = self._log_tail
        self.endpoint_requests = EndpointRequests(self.endpoints, router)
        children = Children(self.loop, self.jobs, proposals.trial_request, steps.submit, replicas.submit)
        self.child_watch = ChildWatch(
            self.loop, SweepReports(self.metrics.history, self.metrics.nested_reports), BusyShares(self.metrics.history)
        )
        self.outbox = Outbox(
            self.loop,
            [
                GangStarter(self.loop, self.engines, gangs, self.inputs).handler(),
                GangStopper(self.loop, self.engines, setting.artifacts).handler(),
                events_writer.handler(),
                OutputPublisher(
                    self.loop, Publisher(self.data, setting.data, self.catalogs.data), events_writer
                ).handler(),
                self.notice_sender.handler(),
                proposals.handler(),
                *children.handlers(),
            ],
        )
        self.watch = GangWatch(self.loop, self.engines, gangs.of, heartbeats)
        states = NodeStates(self.loop, self.engines)
        self.compute_watch = ComputeWatch(
            self.engines,
            self.addresses,
            states,
            Scaler(self.loop, self.engines, states),
            CapacityRecord(store, clock),
            lambda: self.is_active,
        )
        self.tokens = Tokens(store, clock)
        self.schedules = Schedules(self.loop, self.jobs, self.tokens.role_of)
        self.schedule_runner = ScheduleRunner(self.loop, self.schedules)
        self.node_requests = NodeRequests(self.loop, lambda job, node: self.bus.publish(node_topic(job, node)))
        self.hang_watch = HangWatch(self.loop, self.node_requests, setting.artifacts.write_text)
        self.agents = Agents(
            self.loop, self.secrets, heartbeats, self.addresses, self.catalogs.registries, setting.unknown_jobs
        )
        self.computes = Computes(self.loop, self.engines, self.addresses, states)
        self.experiments = Experiments(self.loop, self.metrics, setting.artifacts, self.inputs.contents)
        self.overviews = Overviews(self.loop, self.metrics, self.experiments.names_in_jobs)
        self.outlooks = Outlooks(self.loop, self.metrics)
        self.run_table = RunTable(self.loop, self.metrics, self.experiments.title)
        self.saved_views, self.saved_charts = SavedViews(self.metrics, clock), SavedCharts(self.metrics, clock)
        self.card_sizes = CardSizes(self.metrics, clock)
        self.job_labels = JobLabels(self.loop, self.metrics.write_labels)
        self.job_users = JobUsers(self.loop, self.experiments.names_in_jobs)
        self.prices = Prices(store, self.engines.state)
        self.time_book = TimeBook(self.loop, JobReadings(self.metrics.saves, self.metrics.gpu_use))
        self.ledger = Ledger(self.loop, self.time_book, self.experiments.title, self.prices.all)
        self.use_histories = UseHistories(self.loop, self.time_book, self.experiments.title)
        self.space = Space(
            self.loop,
            setting.artifacts,
            self.catalogs.environments,
            setting.caches,
            runs=self.metrics,
            book_time=self.time_book.book,
        )

    @property
    def _of_active_server(self) -> tuple[Startable, ...]:
        own = self.outbox, self.watch, self.hang_watch, self.child_watch, self.space, self.mlflow, self.schedule_runner
        own = *own, self.time_book
        return (*own, self.deployment_watch) if self.deployment_watch else own

    def _log_tail(self, job: str, size: int) -> str:
        start = self.artifacts.log_start(job, end=self.artifacts.log_end(job), length=size)
        return "".join(piece.text for piece in LogReader(self.artifacts, job, start).read(size))

    def _copies_to(self, server: HttpMlflowServer) -> RunCopies:
        return RunCopies(lambda: self.metrics.store, self.artifacts.of_runs, server, self.metrics.settle)

    def _model_rows(self) -> ModelRows:
        models = self.catalogs.models
        models.settle = EarlierModels(self.metrics, self.store).move
        return ModelRows(self.store, models, self.data)

    def _last_values(self, job: str) -> dict[str, object]:
        return self.metrics.last_values(job)

    def _catalogs(self) -> Catalogs:
        setting = self.setting
        datastores = setting.datastores or Datastores(setting.store, setting.key)
        datastores.ask, datastores.require_unused = self.data.entries, self.pending_outputs.require_none_in
        lineage = LineageReader(setting.store, setting.artifacts, self._last_values)
        models = Models(setting.store, self.data, lineage, setting.registry_key, clock=setting.clock)
        return Catalogs(
            DataAssets(setting.store, setting.clock, datastores, self.data, models),
            models,
            datastores,
            Environments(setting.store, setting.clock, setting.artifacts.has_snapshot),
            Registries(setting.store, setting.key),
            Components(setting.store, setting.clock, setting.artifacts.has_snapshot),
            NoticeTargets(setting.store, setting.key),
            tuple(
                VersionService(kind, setting.store, setting.clock)
                if kind.has_versions
                else ResourceService(kind, setting.store, setting.key)
                for kind in KINDS
                if kind not in OWN_CLASSES
            ),
        )

    @property
    def is_active(self) -> bool:
        """Whether this server is the active one and accepts requests."""
        return self.standby.is_active

    def open(self) -> bool:
        """Acquires the lease and reads the unfinished jobs. Returns False while another server is active."""
        self.engines.open()
        return self.standby.open()

    def start(self) -> None:
        """Opens the server and resumes the unfinished jobs, now or when this server acquires the lease."""
        self.engines.open()
        self.standby.start()
        self.compute_watch.start()

    def _activate(self) -> None:
        """Starts the threads of the active server, except the loop's."""
        self.engines.sweep()
        self.engines.look()  # Sweeping may have taken long, and slow machines may have answered since.
        for one in self._of_active_server:
            one.start()

    def stop(self) -> None:
        """Ends the threads and closes the store. Running jobs keep running without this server."""
        self.standby.stop()
        was_active = self.is_active
        if was_active or self.standby.is_replaced:
            for one in reversed(self._of_active_server):
                one.stop()
        self.compute_watch.stop()
        self.loop.stop()
        if was_active:
            with contextlib.suppress(StorageError):
                if not self.store.other_servers():  # This was the last server over the database.
                    self.engines.close_idle()
        self.metrics.close()
        self.store.close()

    def has_unfinished_work(self, *, with_notices: bool = True) -> bool:
        """Whether any job or effect is unfinished.

        with_notices: also pending notices, for which a server that a user stops doesn't wait.
        """
        effects = [one.effect for one in self.store.outbox()]
        return bool(self.loop.jobs) or any(with_notices or not isinstance(one, SendNotice) for one in effects)

    def must_stay(self) -> bool:
        """Whether the server must not stop when idle: it stands by, something is unfinished, a schedule has a time to
        come, or a run outside of jobs is active, whose client can't start a server.
        """
        if not self.is_active or self.has_unfinished_work() or self.schedules.has_next():
            return True
        is_logged_to = self.metrics.has_outside_run()
        if is_logged_to:
            log.info("the server doesn't stop: a run outside of jobs is active")
        return is_logged_to
