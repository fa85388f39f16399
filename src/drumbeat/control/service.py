"""The door to the control room: what a server can ask for. Every call is safe from any thread."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from drumbeat.control.catalog.data_assets import DataAssets, data_uses
from drumbeat.control.catalog.datastores import Datastores, DatastoreView
from drumbeat.control.catalog.environments import Environments, uses_of
from drumbeat.control.catalog.registries import Registries
from drumbeat.control.computes.computes import Computes, EngineMaker, Known, no_compute, no_engines
from drumbeat.control.data.inputs import Inputs
from drumbeat.control.data.job_output_reader import JobOutputs
from drumbeat.control.data.manifests import Whole
from drumbeat.control.gangs.agent_addresses import Calling
from drumbeat.control.gangs.effects import STORY, Effects
from drumbeat.control.gangs.watch import Watch
from drumbeat.control.jobs import submit
from drumbeat.control.jobs.preview import Preview, preview
from drumbeat.control.loop.loop import Loop
from drumbeat.control.loop.sharing import Sharing
from drumbeat.control.outputs.direct_links import DirectOutputs
from drumbeat.control.outputs.publishing import Publishing
from drumbeat.core.life import cancellation
from drumbeat.core.life.aftermath import outputs_left
from drumbeat.core.life.directive import directive
from drumbeat.core.life.events import AgentSaid, CancelRequested, PublishOutputs
from drumbeat.core.life.job import Job
from drumbeat.core.planning import plan as planning
from drumbeat.core.planning.plan import Facts
from drumbeat.dialect.compute.computes import RemoteCompute, compute_from
from drumbeat.dialect.data.paths import InStore, reference_to
from drumbeat.dialect.environments.texts import Texts
from drumbeat.dialect.job.job import CommandJob
from drumbeat.ports import (
    Artifacts,
    Clock,
    DataAccess,
    Engine,
    Gang,
    Machine,
    Record,
    Reservation,
    Store,
    StoredFile,
    Submission,
)  # fmt: skip
from drumbeat.protocol.agent import AgentStatus, Directive
from drumbeat.protocol.errors import (
    ConflictError,
    DrumbeatError,
    NotFoundError,
    SpecError,
    StaleError,
    StorageError,
    UnauthorizedError,
)  # fmt: skip
from drumbeat.protocol.faults import faultpoint

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """What a client sends to submit or to plan a job.

    document: the job as a JSON-able mapping. source: the file it came from, for messages. key: makes sending it twice
    the same as once. experiment: used where the document names none. code: digest of the code's snapshot. inputs: for
    each input with a local path, `file:///…` or `snapshot:<sha256>`. environment: the files that it names. notes: what
    only the client sees, for people.
    """

    document: dict[str, object]
    key: str = ""
    source: str = "job"
    experiment: str = "default"
    code: str | None = None
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    environment: Texts = field(default_factory=Texts)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComputeView:
    """A compute as a person sees it. trouble: why no job can start there now. spec: what a person wrote."""

    name: str
    engine: str
    machines: tuple[Machine, ...]
    held: tuple[Reservation, ...]
    waiting: int
    trouble: str = ""
    spec: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True)
class Setting:
    """What the control room works with. key: secret of this server, from which every attempt's secret is made.

    programs: the folder that goes first on the ranks' PATH in the environment `current`. is_alone: no other server is
    over this store. Servers that share one share `key`, too: an agent speaks to any of them. engines: of the computes
    that are always there; make_engine makes those of the others. data: the stores that inputs lie in, None = none.
    datastores: those that `data` knows, None = those of the store.
    """

    store: Store
    artifacts: Artifacts
    engines: Mapping[str, Engine]
    clock: Clock
    key: bytes
    programs: str = ""
    is_alone: bool = True
    make_engine: EngineMaker = no_engines
    data: DataAccess | None = None
    datastores: Datastores | None = None


class Control:
    """Submit, plan, cancel, hear agents. Refusals are `drumbeat.protocol.errors`."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.store, self.artifacts = setting.store, setting.artifacts
        self.datastores = setting.datastores or Datastores(setting.store, setting.key)
        self.data: DataAccess = JobOutputs(setting.artifacts, Whole(setting.data) if setting.data else None)
        self.assets = DataAssets(setting.store, setting.clock, self.datastores, self.data)
        publishing = Publishing(self.data, setting.data, self.assets)
        self._hearers: dict[int, Callable[[str], None]] = {}
        self._hearers_lock = threading.Lock()
        self.loop = Loop(setting.store, setting.clock, self._announce, is_alone=setting.is_alone)
        self.engines = Computes(self.loop, setting.engines, setting.make_engine)
        self.calling = Calling(self.loop, self.engines)
        """Its addresses are set before `start`."""
        self.effects = Effects(self.loop, self.engines, setting.artifacts, self._gang)
        self.effects.publishing = publishing
        self.environments = Environments(setting.store, setting.clock, setting.artifacts.has_snapshot)
        self.watch = Watch(self.loop, self.engines, self._gang)
        self.direct = DirectOutputs(self.data, lambda name: self._known(name).job)
        self.inputs = Inputs(setting.artifacts, self.data, lambda job: self._known(job).job.plan)
        self.effects.prepare = self.inputs.prepare
        self.registries = Registries(setting.store, setting.key)
        self.sharing = Sharing(self.loop, self.watch.heard)
        if not setting.is_alone:
            self.loop.look_around, self.engines.look_around = self.sharing.look, self.calling.look

    # --- the life of the server -------------------------------------------------------------------------------
    def open(self) -> None:
        """Takes the lease and reads what is unfinished."""
        self.loop.address = self.calling.here[0] if self.calling.here else ""
        self.engines.open()
        self.loop.open()

    def start(self) -> None:
        """Opens, starts the threads, and goes on with whatever is unfinished."""
        self.open()
        self.engines.sweep()
        self.engines.look()  # Sweeping may have taken long, and machines that were slow at first have answered since.
        self.loop.start()
        self.effects.start()
        self.watch.start()
        self.engines.start()

    def stop(self) -> None:
        """Ends the threads and lets go of the store; jobs that run go on without this server."""
        self.engines.stop()
        self.watch.stop()
        self.effects.stop()
        self.loop.stop()
        with contextlib.suppress(StorageError):
            if not self.store.live_servers():  # Nobody else is over it.
                self.engines.close_idle()
        self.store.close()

    def has_unfinished_work(self) -> bool:
        """Whether any job or effect is unfinished: the server mustn't stop itself then."""
        if not self.setting.is_alone and self.store.heads():
            return True  # Whoever holds it may fail, and be followed by us.
        return bool(self.loop.jobs) or bool(self.store.outbox(self.loop.token))

    def publishing(self) -> list[str]:
        """Jobs that have ended, and whose outputs this server still has to put in their places."""
        return self._publishing(self.loop.token)

    def _publishing(self, token: int | None) -> list[str]:
        """token: None = whichever server has to."""
        pending = (one.job for one in self.store.outbox(token) if isinstance(one.effect, PublishOutputs))
        return [name for name in dict.fromkeys(pending) if outputs_left(self._known(name).job)]

    # --- jobs -------------------------------------------------------------------------------------------------
    def submit(self, request: Request) -> tuple[Record, bool]:
        """The job, durable; and whether it is new. Raises SpecError, RefusedError; ConflictError, also for a key that
        came with another document.
        """
        try:
            submission = self._submission(request)
            record, is_new = self.loop.call(lambda: self._write(submission))
        except DrumbeatError:
            # What can't be sent now may have been taken before, and its answer lost on the way.
            taken = self.store.submitted(request.key) if request.key else None
            if taken is None or not _is_of(taken, request):
                raise
            return taken, False
        if not _is_of(record, request):
            what = f"job {record.job.name} was submitted with this key, and from another document"
            raise ConflictError(what, fix="Send what was sent with it before, or give this job a key of its own.")
        return record, is_new

    def _submission(self, request: Request) -> Submission:
        written, made = submit.planned(request, self._facts, self.environments)
        self._check_sources(request)
        self.direct.check(made.plan)
        job, first = submit.new_job(written, made, self.setting.clock.now())
        key = request.key or secrets.token_hex(16)
        return Submission(key, job, request.document, (first,), (*uses_of(made.asset), *data_uses(made.data)))

    def _write(self, submission: Submission) -> tuple[Record, bool]:
        compute = submission.job.plan.compute
        if compute not in self.engines:  # It was deleted since the plan was made.
            raise no_compute(compute, self.engines)
        faultpoint("submit.before_commit")
        try:
            record, is_new = self.store.submit(self.loop.token, submission)
        except StaleError:
            self.loop.beat()  # We had been replaced; now we are a new server.
            record, is_new = self.store.submit(self.loop.token, submission)
        faultpoint("submit.after_commit")
        if is_new and record.lease == self.loop.token:
            self.loop.add(record)
        return record, is_new

    def _check_sources(self, request: Request) -> None:
        wanted = [one for one in (request.code, request.environment.context) if one]
        wanted += [uri.removeprefix("snapshot:") for uri in request.inputs.values() if uri.startswith("snapshot:")]
        for digest in wanted:
            if not self.artifacts.has_snapshot(digest):
                raise NotFoundError(f"snapshot {digest} was not uploaded", fix="Send it before the job.")

    def preview(self, request: Request) -> Preview:
        """What `submit` would run. Starts and writes nothing."""
        written, made = submit.planned(request, self._facts, self.environments)
        self.direct.check(made.plan)
        job, _ = submit.new_job(written, made, self.setting.clock.now())
        return preview(job, made, self.loop, self.engines)

    def cancel(self, name: str, by: str, *, discard: bool = False) -> Record:
        """Asks a job to stop. Twice is the same as once; one that has ended otherwise is a ConflictError, and so is one
        that keeps its results, unless they may be discarded.

        A job that another server holds is stopped at that server's next look; the wish is durable already.
        """
        self.loop.call(lambda: self._cancel(name, CancelRequested(by, discard)))
        return self.store.load(name)

    def _cancel(self, name: str, request: CancelRequested) -> None:
        job = self._known(name).job
        if error := cancellation.refusal(job, request):
            raise error
        if not cancellation.is_repeated(job, request):
            self.sharing.deliver(name, request)

    def files(self, name: str) -> list[StoredFile]:
        """Everything that can be fetched of a job.

        Of one that has ended, plan and story too: who saw it end may ask before the outbox has come to them.
        """
        job = self.store.load(name).job
        found = self.artifacts.files(name)
        if not job.state.is_terminal or any(file.path == STORY for file in found):
            return found
        try:
            self.effects.write_story(job)
        except StorageError:  # A full disk; the outbox tries again, and the other files can be had.
            return found
        return self.artifacts.files(name)

    def _facts(self, job: CommandJob) -> Facts:
        aliases = self.store.aliases()
        _, compute = planning.meant(job, aliases)
        self.engines.await_machines(compute)
        capacity = {
            name: (sum(m.cpus for m in machines), sum(len(m.gpus) for m in machines))
            for name, machines in self.loop.machines.items()
        }
        machines = {name: [(m.cpus, len(m.gpus)) for m in there] for name, there in self.loop.machines.items()}
        programs = {name: one.path_first(self.setting.programs) for name, one in self.engines.all().items()}
        prepare = {name: one.prepare for name, one in self.engines.all().items() if one.prepare}
        data = self.assets.facts()
        known = self.loop.troubles
        return Facts(
            capacity, aliases, programs, known, prepare=prepare, data=data, machines=machines,
            without_containers=self.engines.without_containers(), registries=self.registries.addresses(),
        )  # fmt: skip

    # --- agents -----------------------------------------------------------------------------------------------
    def agent_said(self, job: str, attempt: int, node: int, secret: str, status: AgentStatus) -> Directive:
        """Hears an agent and tells it what to do. Raises UnauthorizedError, StaleError, NotFoundError."""
        known = self._heard(job, attempt, node, secret, status)
        if known.nodes and (known.nodes[node] != status or not self.loop.holds(job)):
            event = AgentSaid(attempt, node, status)
            known = _of_attempt(attempt, self.loop.call(lambda: self.sharing.deliver(job, event)))
        return self._directive(known)

    def has_news_of_logs(self, job: str, attempt: int, node: int, secret: str, status: AgentStatus) -> bool:
        """Whether this status is the first to say that a round's logs are all here. Raises as `agent_said` does.

        They must be settled before it is taken: what follows lets go of the node.
        """
        known = self._heard(job, attempt, node, secret, status)
        before = known.nodes[node] if known.nodes else None
        is_told = before is not None and before.round == status.round and before.has_sent_logs
        return status.has_sent_logs and not is_told

    def _heard(self, job: str, attempt: int, node: int, secret: str, status: AgentStatus) -> Job:
        self.check_secret(job, attempt, secret)
        self.watch.heard(job, attempt, node)
        known = self._current(job, attempt)
        if not 0 <= node < known.plan.nodes or status.member.node != node:
            raise SpecError(f"job {job} has no node {node}")
        return known

    def directive(self, job: str, attempt: int) -> Directive:
        """What the agents should be doing now: one that waits for it isn't heard by that. StaleError, NotFoundError."""
        return self._directive(self._current(job, attempt))

    def _directive(self, job: Job) -> Directive:
        return replace(directive(job), servers=self.calling.known(job.plan.compute))

    def admit_agent(self, job: str, attempt: int, secret: str) -> None:
        """Checks an agent's secret for its other calls. Raises UnauthorizedError; StaleError when replaced."""
        self.check_secret(job, attempt, secret)
        self._current(job, attempt)

    def registry_access(self, job: str) -> dict[str, object]:
        """With what the nodes of a job pull its images. Raises NotFoundError."""
        container = self._known(job).job.plan.container
        return self.registries.access(container.registries if container else ())

    def _known(self, name: str) -> Record:
        """What is in memory is only to be believed while nobody can have taken the job."""
        return (self.loop.jobs.get(name) if self.loop.is_sure else None) or self.store.load(name)

    def _current(self, name: str, attempt: int) -> Job:
        """Raises StaleError unless the job is in that attempt, which memory knows only once its grant was answered."""
        known = self._known(name).job
        return _of_attempt(attempt, known if known.attempt >= attempt else self.store.load(name).job)

    def check_secret(self, job: str, attempt: int, secret: str) -> None:
        """Raises UnauthorizedError for a secret that isn't the attempt's, whether or not there is such a job."""
        if not hmac.compare_digest(secret.encode(), self._secret(job, attempt).encode()):
            raise UnauthorizedError(f"not the secret of attempt {attempt} of job {job}")

    def _secret(self, job: str, attempt: int) -> str:
        """Made from the server's key, so that a server that starts again knows its agents."""
        return hmac.new(self.setting.key, f"{job}\0{attempt}".encode(), hashlib.sha256).hexdigest()

    def _gang(self, job: Job) -> Gang:
        secret, servers = self._secret(job.name, job.attempt), self.calling.open_for(job.plan.compute)
        return Gang(job.name, job.attempt, job.plan, job.slots, secret, servers, self.calling.authority(servers))

    # --- hearing of changes -----------------------------------------------------------------------------------
    def subscribe(self, heard: Callable[[str], None]) -> Callable[[], None]:
        """Calls `heard(job)` from any thread after each change of a job or its logs; gives the way to unsubscribe."""
        key = id(heard)
        with self._hearers_lock:
            self._hearers[key] = heard
        return lambda: self._hearers.pop(key, None) and None

    def log_arrived(self, job: str) -> None:
        """Tells the subscribers that a job's logs have grown."""
        self._announce(job)

    def _announce(self, job: str) -> None:
        for heard in list(self._hearers.values()):
            heard(job)

    # --- computes ---------------------------------------------------------------------------------------------
    def computes(self) -> list[ComputeView]:
        """The computes, who holds their slots, and how many jobs wait."""
        queued = self._queued()
        return [self._view(name, one, queued) for name, one in self.engines.all().items()]

    def compute(self, name: str) -> ComputeView:
        """One of them. Raises NotFoundError."""
        return self._view(name, self.engines.known(name), self._queued())

    def create_compute(self, document: Mapping[str, object], source: str = "compute") -> tuple[ComputeView, bool]:
        """The compute that a person described, and whether it is new. The same again is the same success.

        Raises SpecError; ConflictError when jobs use another of its name; RefusedError, EngineError when it can't be.
        """
        made = compute_from(document, source)
        there = self.engines.all().get(made.name)
        if isinstance(made, RemoteCompute) and made.server_address and (there is None or there.spec != made):
            self.calling.require(made.server_address)
        is_new = self.engines.create(made)
        return self.compute(made.name), is_new

    def delete_compute(self, name: str) -> None:
        """Removes a compute. Raises NotFoundError; ConflictError while jobs use it, or for one that is always there."""
        self.engines.delete(name)

    # --- datastores -------------------------------------------------------------------------------------------
    def create_datastore(
        self, document: Mapping[str, object], source: str = "datastore", *, check: bool = True
    ) -> tuple[DatastoreView, bool]:
        """Keeps a datastore that answers, or, without `check`, any; and whether there was none of its name."""
        return self.datastores.create(document, source, self.data.entries if check else None)

    def delete_datastore(self, name: str) -> None:
        """Forgets one. Raises NotFoundError; ConflictError for one that is always there, and while outputs of jobs that
        have ended are still to go there.
        """
        for job in self._publishing(None):
            for output in outputs_left(self._known(job).job):
                place = reference_to(output.uri) if output.uri else None
                if isinstance(place, InStore) and place.datastore == name:
                    what = f"output {output.name} of job {job} is still to be put into datastore {name}"
                    raise ConflictError(what, fix=f"Wait for it; or give it up: drumbeat cancel {job} --discard")
        self.datastores.delete(name)

    def _queued(self) -> list[str]:
        return [job.plan.compute for job in self.loop.jobs_queued(self.loop.everybody())]

    def _view(self, name: str, one: Known, queued: list[str]) -> ComputeView:
        held = tuple(self.store.reservations(name))
        spec = one.document or {}
        return ComputeView(name, one.engine.name, one.machines, held, queued.count(name), one.trouble, spec)


def _is_of(record: Record, request: Request) -> bool:
    """Whether the job was made from the request's document."""
    sent, kept = (json.dumps(one, sort_keys=True) for one in (request.document, record.spec))
    return sent == kept


def _of_attempt(attempt: int, job: Job) -> Job:
    if job.attempt != attempt:
        raise StaleError(f"attempt {attempt} of job {job.name} has been replaced by attempt {job.attempt}")
    return job
