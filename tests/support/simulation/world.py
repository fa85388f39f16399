"""The world of a simulation: servers that can be killed or stopped at any failpoint, one machine, one clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from drumbeat.core.lifecycle.events import CheckpointSaved, StallObserved, StopGang
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.quotas import Quota
from drumbeat.model import failpoints
from drumbeat.model.agent import AgentStatus, Directive, Order
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.endpoints import OnlineDeployment, OnlineEndpoint
from drumbeat.model.errors import DrumbeatError, StaleError, StandbyError, StorageError, UnreachableError
from drumbeat.model.metrics import Point, Run, RunCreated, run_id
from drumbeat.model.principal import UNKNOWN, Principal
from drumbeat.model.states import JobKind, State
from drumbeat.server.computes.agent_addresses import Endpoints
from drumbeat.server.control import Control, Setting
from drumbeat.server.database import LeaseRules
from drumbeat.server.database.records import PendingEffect
from drumbeat.server.endpoints.router_program import RouterProgram
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.home_folder.stored_files import StoredFile
from drumbeat.server.loop.outbox import Lane
from drumbeat.server.loop.steps import Report
from drumbeat.server.metrics.metric_records import HistoryPage, RunPage, RunSearch
from drumbeat.server.metrics.metrics import MetricPlace
from drumbeat.server.metrics.tables import SqlMetricStore
from tests.support.fake_clock import FakeClock
from tests.support.simulation.backing import Backing, MemoryBacking, Sight
from tests.support.simulation.engine import Engine
from tests.support.simulation.nodes import Node
from tests.support.simulation.routers import SimulatedRouter
from tests.support.simulation.warm_pools import SupervisorWorld

LEASE_TIMEOUT = timedelta(seconds=15)
BEAT_S = 10.0
"""How often the active of several servers renews its lease: more seldom than real ones, and often enough."""


class Killed(BaseException):
    """The server died here; only what the store has acknowledged is left."""


class Texts:
    """As much of `FolderArtifacts` as the control room uses."""

    of_runs = environments = None
    """No run has files here, and no job an environment."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def has_snapshot(self, digest: str) -> bool:
        """Everything was uploaded."""
        return bool(digest)

    def write_text(self, job: str, path: str, text: str) -> None:
        """Kept for ever."""
        self.kept[job, path] = text

    def drop_parts(self, job: str, attempt: int) -> None:
        """Nothing is sent."""

    def files(self, job: str) -> list[StoredFile]:
        """By path."""
        return [StoredFile(path, len(text)) for (of, path), text in sorted(self.kept.items()) if of == job]


class SimulatedMetrics:
    """As much of `SqlMetricStore` as sweeps and ends of jobs use: it outlives servers, and is never away."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}
        self.statuses: dict[str, str] = {}
        """The status of each run that exists."""

    def ensure_run(self, created: RunCreated, experiment: str) -> Run:
        """Returns a run, which is created if it doesn't exist."""
        _ = experiment
        self.statuses.setdefault(created.run, "RUNNING")
        return Run(created.run, created.experiment, created.name, "RUNNING", created.start_ms, job=created.job)

    def settle(self, run: str, status: str, end_ms: int) -> None:
        """Ends a run."""
        _ = end_ms
        self.statuses[run] = status

    def remove_run(self, run: str) -> None:
        """Removes a run with its values."""
        self.statuses.pop(run, None)
        self.values.pop(run, None)

    def report(self, job: str, value: float) -> None:
        """Keeps a value of the metric of the job's rank 0."""
        self.values.setdefault(run_id(job), []).append(value)

    def history(self, run: str, name: str, rank: int, after: int = 0, limit: int = 25_000) -> HistoryPage:
        """Returns the points from `after` on."""
        _ = rank
        values = self.values.get(run, [])[after : after + limit]
        points = tuple(Point(name, value, after + n, 0) for n, value in enumerate(values))
        return HistoryPage(points, after + len(points), is_last=True)

    def search_runs(self, search: RunSearch) -> RunPage:
        """Returns no runs: the simulated scripts make none beside their jobs' own."""
        _ = search
        return RunPage(())


@dataclass(frozen=True)
class Nap:
    """SIGSTOP, or a long collection, at so many failpoints (whose names begin so) from now, for so many actions."""

    where: str
    points: int
    actions: int


@dataclass
class Server:
    """A place where a server runs, or doesn't. fuse: it dies at this many failpoints from now.

    refusals: how many of its next commits the store refuses. loses_answers: it writes them, and can't say so.
    nap: where it will be stopped. has_napped: in the middle of what it is asked now. calls: what it is at: a thread may
    still be stopped while others go on. is_held: that is its loop's thread. handed: the effects that its threads may
    hold in their hands, however old. busy: lanes that its threads are at.
    """

    number: int
    control: Control | None = None
    is_asleep: bool = False
    fuse: int | None = None
    refusals: int = 0
    loses_answers: bool = False
    nap: Nap | None = None
    has_napped: bool = False
    calls: int = 0
    is_held: bool = False
    handed: list[PendingEffect] = field(default_factory=list[PendingEffect])
    busy: set[Lane] = field(default_factory=set[Lane])

    @property
    def url(self) -> str:
        """What agents know it by."""
        return f"http://s{self.number}"

    @property
    def is_awake(self) -> bool:
        """Whether it answers."""
        return self.control is not None and not self.is_asleep

    @property
    def is_active(self) -> bool:
        """Whether it takes requests: it has the lease, as far as it knows."""
        return self.control is not None and self.control.is_active


class World:
    """Everything that survives the servers, and the servers while they live."""

    def __init__(self, servers: int = 1, backing: Backing | None = None) -> None:
        self.clock, self.backing, self.engine, self.texts = FakeClock(), backing or MemoryBacking(), Engine(), Texts()
        self.engine.late_by, self.engine.on_stop = self._late_by, self._stops
        self.warm_pools = SupervisorWorld(self.clock, self._let_happen)
        self.engine.make = self.warm_pools.make
        self.metrics, self.router = SimulatedMetrics(), SimulatedRouter(self.nodes)
        self.acknowledged: dict[str, str] = {}
        """Key of a submission to the job that was acknowledged for it."""
        self.sent: dict[str, dict[str, object]] = {}
        """Key of a submission to what was first sent with it."""
        self.cancels: set[str] = set()
        self.unanswered: set[str] = set()
        """Gangs that an engine was asked for, and didn't answer; their jobs have been told."""
        self.looked: list[Job] = []
        """Jobs as they were when a server looked after them: an engine takes its time to answer."""
        self.taken_over: list[tuple[str, str, str]] = []
        """A gang, the job whose agent has gone on, and the job with which it did."""
        self.wrongs: list[str] = []
        """What servers did that they mustn't, in words."""
        self.meanwhile: Callable[[int], None] = lambda _actions: None
        """Lets that many of the next actions happen, while a server is stopped in the middle of something."""
        self.servers = [Server(number) for number in range(servers)]
        self._acting: Server | None = None
        for server in self.servers:
            self.start_server(server)

    def _let_happen(self, actions: int) -> None:
        self.meanwhile(actions)

    def close(self) -> None:
        """Ends what is played by real things."""
        self.warm_pools.close()

    def look(self) -> Sight:
        """What is stored now."""
        return self.backing.look()

    # --- the servers ------------------------------------------------------------------------------------------
    def start_server(self, server: Server) -> None:
        """A new process over the same database, or one that was stopped goes on.

        One that is stopped in the middle of an effect may go on without that thread; but it has only one loop.
        """
        if server.is_held:
            return
        server.is_asleep = False
        if server.control is None:
            store = self.backing.open(LeaseRules(len(self.servers) == 1, LEASE_TIMEOUT, self.clock.monotonic))
            artifacts: FolderArtifacts = self.texts  # pyright: ignore[reportAssignmentType] (as much of it as is used)
            endpoints = Endpoints((server.url,))
            metrics: SqlMetricStore = self.metrics  # pyright: ignore[reportAssignmentType] (as above)
            router: RouterProgram = self.router  # pyright: ignore[reportAssignmentType] (as above)
            setting = Setting(
                store,
                artifacts,
                {"local": self.engine},
                self.clock,
                b"key",
                endpoints=endpoints,
                metrics=MetricPlace(lambda: metrics, lambda: True),
                router=router,
            )
            control = Control(setting)
            control.open()
            server.control = control

    def kill_server(self, server: Server) -> None:
        """Whatever it had in memory is gone."""
        server.control, server.fuse, server.nap, server.is_asleep = None, None, None, False
        server.is_held, server.refusals = False, 0
        server.handed, server.busy = [], set()
        self._forget_late(server)

    def end_server(self, server: Server) -> None:
        """SIGTERM: it gives up its lease."""
        if server.is_awake and server.control:
            server.control.loop.stop()
            self.kill_server(server)

    def awake(self) -> list[Server]:
        """Those that answer."""
        return [server for server in self.servers if server.is_awake]

    def tick(self, seconds: float) -> None:
        """Time passes, and the servers notice, those with a lower number first."""
        if len(self.servers) == 1:
            self.clock.advance(seconds)
            self.ask("tick")
            self.warm_pools.pass_time()
            return
        while seconds > 0:
            self.clock.advance(min(BEAT_S, seconds))
            seconds -= BEAT_S
            for server in self.awake():
                self.ask("tick", at=server.number)
        self.warm_pools.pass_time()

    def ask(self, what: str, *arguments: object, at: int = 0, known: Collection[str] | None = None) -> None:
        """Calls a method of this world that talks to a server, which may be away, may refuse, or may die of it.

        at: which server is tried first; one that doesn't answer, or stands by, is passed over. known: the only ones
        that are tried. A server's own threads don't ask whether it stands by.
        """
        tried = [self.servers[(at + n) % len(self.servers)] for n in range(len(self.servers))]
        tried = [one for one in tried if known is None or one.url in known]
        is_own = what in ("tick", "effect")
        server = next((one for one in tried if one.is_awake and (is_own or one.is_active)), None)
        if server is None or server.control is None:
            return
        has_napped, server.has_napped = server.has_napped, False
        server.calls += 1
        hook, acting = failpoints.hook, self._acting
        failpoints.hook, self._acting = self._hook(server, server.control), server
        try:
            getattr(self, f"_{what}")(server.control, *arguments)
        except (Killed, DrumbeatError, OSError):
            pass
        finally:
            failpoints.hook, self._acting = hook, acting
            server.calls -= 1
            server.has_napped = has_napped
        if not server.calls:
            self._answer_for(server)
            if server.control and server.control.standby.is_replaced:  # The process begins again, and stands by.
                server.control, server.is_held = None, False
                self.start_server(server)

    def _hook(self, server: Server, control: Control) -> Callable[[str], None]:
        """Called at every failpoint that this server passes."""

        def passed(point: str) -> None:
            nap = server.nap
            if nap is not None and point.startswith(nap.where):
                server.nap = replace(nap, points=nap.points - 1) if nap.points > 1 else None
                if nap.points <= 1:
                    server.is_held = not point.startswith("effect.")
                    self._stopped_here(server, nap.actions)
            if server.control is not control:
                raise Killed  # While it was stopped.
            if server.refusals and point == ("loop.after_commit" if server.loses_answers else "loop.before_commit"):
                server.refusals -= 1
                raise StorageError("the disk is full")
            if server.fuse is not None:
                server.fuse -= 1
                if server.fuse <= 0:
                    self.kill_server(server)
                    raise Killed

        return passed

    def _stopped_here(self, server: Server, actions: int) -> None:
        control, server.is_asleep, server.has_napped = server.control, True, True
        if actions % 3:
            self.tick(3 * BEAT_S)  # Long enough to be replaced.
        self.meanwhile(actions)
        if server.control is control:
            server.is_asleep = server.is_held = False

    # --- what a server is asked -------------------------------------------------------------------------------
    def _submit(self, control: Control, key: str, document: dict[str, object]) -> None:
        """The same again with a key that was used: a client that never got its answer."""
        record, _ = control.jobs.submit(JobRequest(self.sent.setdefault(key, document), key=key))
        self.acknowledged[key] = record.job.name

    def _submit_as(self, control: Control, key: str, document: dict[str, object], user: str) -> None:
        request = JobRequest(self.sent.setdefault(key, document), key=key)
        record, _ = control.jobs.submit(request, by=Principal(user))
        self.acknowledged[key] = record.job.name

    def _quota(self, control: Control, quota: Quota) -> None:
        control.quotas.set(quota)

    def _cancel(self, control: Control, name: str, discard: bool) -> None:
        control.jobs.cancel(name, "ada", discard=discard)
        self.cancels.add(name)

    def _sync(self, control: Control, node: Node, status: AgentStatus, hears: bool) -> None:
        """Says `status`, and obeys what comes back, if somebody waits for the answer and it arrives."""
        gang = node.gang
        try:
            told = control.agents.report(gang.job, gang.attempt, node.number, gang.node_secret(node.number), status)
        except StaleError:
            if hears:
                node.leave()
            return
        if hears and status.serial == node.serial and not node.has_left:
            self._obey(control, node, told)

    def _obey(self, control: Control, node: Node, told: Directive) -> None:
        """Obeys, or goes on with the job that has taken over the node."""
        gang = node.gang
        if told.order is Order.LEAVE:
            heir = control.agents.next_job(gang.job, gang.attempt, node.number, node.proof)
            if heir is not None:
                self.taken_over.append((gang.name, gang.job, heir.job))
                self.engine.take_over(node, control.watch.gang_of(control.loop.record(heir.job).job))
                return
        node.obey(told)

    def _sync_together(self, control: Control, nodes: Sequence[Node], hears: bool) -> None:
        """Agents of several nodes say how far they are while the loop is busy: it takes all of them at once."""
        said: list[tuple[Node, Report]] = []
        for node, status in [(node, node.status()) for node in nodes]:
            secret = node.gang.node_secret(node.number)
            try:
                job, event = control.agents.read_report(node.gang.job, node.gang.attempt, node.number, secret, status)
            except StaleError:
                node.leave()
            else:
                if event:
                    said.append((node, Report(job.name, event)))
        control.loop.apply_all([report for _, report in said])
        for node, report in said:
            with suppress(DrumbeatError):  # One that is refused says it again.
                told = control.agents.directive_for(node.gang.attempt, report.done.result())
                if hears and not node.has_left:
                    self._obey(control, node, told)

    def _effect(self, control: Control, pending: PendingEffect) -> None:
        """Effects of one lane are run one after the other, also where one hangs."""
        server, lane = self._acting, control.outbox.lane_of(pending)
        if server and lane not in server.busy:
            server.busy.add(lane)
            try:
                control.outbox.carry_out(pending)
            except UnreachableError:
                self.unanswered.add(f"{pending.job}.{pending.attempt}")
                raise
            finally:
                server.busy.discard(lane)

    def _place(self, control: Control) -> None:
        if control.loop.must_place:
            control.loop.place()

    def _tick(self, control: Control) -> None:
        if control.is_active:
            control.loop.tick()
        else:
            control.open()
        control.addresses.look()

    def _watch(self, control: Control, name: str) -> None:
        record = control.loop.jobs.get(name)
        if record is not None and record.job.state is not State.QUEUED:
            self.looked.append(record.job)
            control.watch.look_after(record.job)

    def _children(self, control: Control, name: str) -> None:
        record = control.loop.jobs.get(name)
        if record is not None and record.job.kind is not JobKind.COMMAND:
            control.child_watch.look_at(record.job)

    def _put_deployment(self, control: Control, definition: OnlineDeployment) -> None:
        endpoint = OnlineEndpoint(definition.endpoint_name)
        control.endpoints.put(endpoint, UNKNOWN)
        control.endpoints.put_deployment(definition, UNKNOWN)

    def _delete_deployment(self, control: Control, endpoint: str, name: str) -> None:
        control.endpoints.delete_deployment(endpoint, name, UNKNOWN)

    def _delete_endpoint(self, control: Control, endpoint: str) -> None:
        control.endpoints.delete(endpoint, UNKNOWN)

    def _endpoints(self, control: Control) -> None:
        if control.deployment_watch:
            control.deployment_watch.look()

    def _checkpoint(self, control: Control, name: str, attempt: int, number: int) -> None:
        control.loop.apply(name, CheckpointSaved(attempt, number, 10))

    def _silence(
        self,
        control: Control,
        name: str,
        seen: Callable[[Job, int], StallObserved],
        which: int,
        check: Callable[[Job, StallObserved, Job], None],
    ) -> None:
        record = control.loop.jobs.get(name)
        if record is not None and control.loop.is_current:
            event = seen(record.job, which)
            check(record.job, event, control.loop.apply(name, event))

    def _look(self, control: Control, job: Job) -> None:
        control.watch.look_after(job)

    # --- looking around ---------------------------------------------------------------------------------------
    def nodes(self) -> list[Node]:
        """Every node that is there, those first that shouldn't be any more."""
        nodes = [*self.engine.ghosts, *(node for nodes in self.engine.nodes.values() for node in nodes)]
        return [node for node in nodes if not node.has_left]

    def outbox(self, server: Server) -> list[PendingEffect]:
        """What a server would hand out: of each lane the first."""
        first: dict[Lane, PendingEffect] = {}
        if server.is_awake and server.is_active and server.control:
            control = server.control
            for pending in control.store.outbox():
                if isinstance(pending.effect, StopGang) and control.loop.kept_gangs.is_early(
                    pending.job, pending.attempt
                ):
                    continue
                first.setdefault(control.outbox.lane_of(pending), pending)
        server.handed = list(first.values())
        return server.handed

    def endpoints(self) -> list[str]:
        """Names of all endpoints, as the active server knows them."""
        control = next((one.control for one in self.awake() if one.is_active), None)
        return [one.definition.name for one in control.endpoints.catalog.endpoints()] if control else []

    def jobs(self) -> list[str]:
        """Names of all jobs, oldest first."""
        return list(self.look().records)

    # --- what the engine is asked -----------------------------------------------------------------------------
    def _late_by(self, job: str) -> int | None:
        """The server that acts, if another one is active. It may do so only if it has been stopped just now."""
        server = self._acting
        if server is None or server.control is None or _has_lease(server.control):
            return None
        if not server.has_napped:
            self.wrongs.append(f"server {server.number} acts for {job}, and knows that another one is active")
        return server.number

    def _stops(self, gang: str) -> None:
        self._late_by(gang.rpartition(".")[0])
        if self._is_wanted(gang):
            self.wrongs.append(f"gang {gang} is stopped, and it is wanted")

    def _answer_for(self, server: Server) -> None:
        """What it started too late it has stopped again, unless the gang is wanted all the same."""
        left = [gang for gang, by in self.engine.late.items() if by == server.number and not self._is_wanted(gang)]
        self.wrongs += [f"gang {gang} was started too late and left behind" for gang in left]
        self._forget_late(server)

    def _forget_late(self, server: Server) -> None:
        self.engine.late = {gang: -1 if by == server.number else by for gang, by in self.engine.late.items()}

    def _is_wanted(self, gang: str) -> bool:
        jobs = [record.job for record in self.look().records.values()]
        return any(job.gang == gang and job.attempt and not job.is_without_nodes for job in jobs)


def _has_lease(control: Control) -> bool:
    try:
        control.store.require_lease()
    except StandbyError:
        return False
    return True
