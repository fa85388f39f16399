"""The door to the control room: what a server can ask for. Every call is safe from any thread."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from drumbeat import launch
from drumbeat.control import submitting
from drumbeat.control.effects import Effects
from drumbeat.control.loop import Loop, waiting
from drumbeat.control.watch import Watch
from drumbeat.core import plan as planning
from drumbeat.core.directive import directive
from drumbeat.core.events import AgentSaid
from drumbeat.core.job import Job
from drumbeat.core.placement import Room, place
from drumbeat.core.plan import Facts
from drumbeat.core.states import State
from drumbeat.ports import Artifacts, Clock, Engine, Gang, Machine, Record, Reservation, Store, Submission
from drumbeat.protocol.agent import AgentStatus, Directive
from drumbeat.protocol.errors import NotFoundError, SpecError, StaleError, UnauthorizedError
from drumbeat.protocol.faults import faultpoint
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.process import ProcessSpec
from drumbeat.protocol.roster import Member, Roster


@dataclass(frozen=True)
class Request:
    """What a client sends to submit or to plan a job.

    document: the job as a JSON-able mapping. source: the file it came from, for messages. key: makes sending it twice
    the same as once. experiment: used where the document names none. code: digest of the code's snapshot. inputs: for
    each input with a local path, `file:///…` or `snapshot:<sha256>`.
    """

    document: dict[str, object]
    key: str = ""
    source: str = "job"
    experiment: str = "default"
    code: str | None = None
    inputs: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Preview:
    """What would run. processes: of every node, in rank order. staged, notes: sentences. queue: where it would wait."""

    plan: Plan
    processes: tuple[ProcessSpec, ...]
    staged: tuple[str, ...]
    queue: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ComputeView:
    """A compute as a person sees it."""

    name: str
    engine: str
    machines: tuple[Machine, ...]
    held: tuple[Reservation, ...]
    waiting: int


@dataclass(frozen=True)
class Setting:
    """What the control room works with. key: secret of this server, from which every attempt's secret is made.

    programs: the folder that goes first on the ranks' PATH in the environment `current`.
    """

    store: Store
    artifacts: Artifacts
    engines: Mapping[str, Engine]
    clock: Clock
    key: bytes
    programs: str = ""


class Control:
    """Submit, plan, cancel, hear agents. Refusals are `drumbeat.protocol.errors`."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.store, self.artifacts, self.engines = setting.store, setting.artifacts, setting.engines
        self.servers: tuple[str, ...] = ()
        """Where agents find this server; set before `start`."""
        self._hearers: dict[int, Callable[[str], None]] = {}
        self._hearers_lock = threading.Lock()
        self.loop = Loop(setting.store, setting.clock, self._announce)
        self.effects = Effects(self.loop, setting.engines, setting.artifacts, self._gang)
        self.watch = Watch(self.loop, setting.engines, self._gang)

    # --- the life of the server -------------------------------------------------------------------------------
    def open(self) -> None:
        """Takes the lease and reads what is unfinished."""
        self.loop.machines = {name: engine.machines() for name, engine in self.engines.items()}
        self.loop.open()

    def start(self) -> None:
        """Opens, starts the threads, and goes on with whatever is unfinished."""
        self.open()
        self.loop.start()
        self.effects.start()
        self.watch.start()

    def stop(self) -> None:
        """Ends the threads and lets go of the store; jobs that run go on without this server."""
        self.watch.stop()
        self.effects.stop()
        self.loop.stop()
        self.store.close()

    def has_unfinished_work(self) -> bool:
        """Whether any job or effect is unfinished: the server mustn't stop itself then."""
        return bool(self.loop.jobs) or bool(self.store.outbox())

    # --- jobs -------------------------------------------------------------------------------------------------
    def submit(self, request: Request) -> tuple[Record, bool]:
        """The job, durable; and whether it is new. Raises SpecError, RefusedError, ConflictError."""
        written, made = submitting.planned(request, self._facts())
        self._check_sources(request)
        job, first = submitting.new_job(written, made, self.setting.clock.now())
        submission = Submission(request.key or secrets.token_hex(16), job, request.document, (first,))
        return self.loop.call(lambda: self._write(submission))

    def _write(self, submission: Submission) -> tuple[Record, bool]:
        faultpoint("submit.before_commit")
        record, is_new = self.store.submit(self.loop.token, submission)
        faultpoint("submit.after_commit")
        if is_new:
            self.loop.add(record)
        return record, is_new

    def _check_sources(self, request: Request) -> None:
        wanted = [request.code] if request.code else []
        wanted += [uri.removeprefix("snapshot:") for uri in request.inputs.values() if uri.startswith("snapshot:")]
        for digest in wanted:
            if not self.artifacts.has_snapshot(digest):
                raise NotFoundError(f"snapshot {digest} was not uploaded", fix="Send it before the job.")

    def preview(self, request: Request) -> Preview:
        """What `submit` would run. Starts and writes nothing."""
        written, made = submitting.planned(request, self._facts())
        job, _ = submitting.new_job(written, made, self.setting.clock.now())
        return Preview(
            made.plan, preview_processes(made.plan), planning.staged(made.plan), self._queue(job), made.notes
        )

    def _queue(self, job: Job) -> str:
        compute = job.plan.compute
        rooms = [Room(m.name, m.cpus, m.gpus) for m in self.engines[compute].machines()]
        queue = [waiting(r.job) for r in list(self.loop.jobs.values()) if r.job.state is State.QUEUED]
        held = self.loop.holdings(compute)
        said = place([*queue, waiting(job)], rooms, held, self.setting.clock.now(), compute=compute)
        mine = next(one for one in said if one.job == job.name)
        if mine.slots:
            return f"compute {compute}: would start at once"
        return f"compute {compute}: would {'never start' if mine.never else 'wait'}: {mine.sentence}"

    def cancel(self, name: str, by: str) -> Record:
        """Asks a job to stop. Twice is the same as once; one that has ended otherwise is a ConflictError."""
        self.loop.call(lambda: self.loop.cancel(name, by))
        return self.store.load(name)

    def _facts(self) -> Facts:
        capacity = {
            name: (sum(m.cpus for m in machines), sum(len(m.gpus) for m in machines))
            for name, machines in self.loop.machines.items()
        }
        return submitting.facts_of(capacity, self.store.aliases(), self.setting.programs)

    # --- agents -----------------------------------------------------------------------------------------------
    def agent_said(self, job: str, attempt: int, node: int, secret: str, status: AgentStatus) -> Directive:
        """Hears an agent and tells it what to do. Raises UnauthorizedError, StaleError, NotFoundError."""
        self._check_secret(job, attempt, secret)
        self.watch.heard(job, attempt, node)
        known = self._current(job, attempt)
        if not 0 <= node < known.plan.nodes or status.member.node != node:
            raise SpecError(f"job {job} has no node {node}")
        if known.nodes and known.nodes[node] != status:
            event = AgentSaid(attempt, node, status)
            known = self.loop.call(lambda: self.loop.apply(job, event))
        return directive(known)

    def directive(self, job: str, attempt: int, node: int) -> Directive:
        """What the agent of a node should be doing now. Raises StaleError, NotFoundError."""
        self.watch.heard(job, attempt, node)
        return directive(self._current(job, attempt))

    def admit_agent(self, job: str, attempt: int, secret: str) -> None:
        """Checks an agent's secret for its other calls. Raises UnauthorizedError; StaleError when replaced."""
        self._check_secret(job, attempt, secret)
        self._current(job, attempt)

    def _current(self, name: str, attempt: int) -> Job:
        record = self.loop.jobs.get(name) or self.store.load(name)
        if record.job.attempt != attempt:
            raise StaleError(f"attempt {attempt} of job {name} has been replaced by attempt {record.job.attempt}")
        return record.job

    def _check_secret(self, job: str, attempt: int, secret: str) -> None:
        if not hmac.compare_digest(secret.encode(), self._secret(job, attempt).encode()):
            raise UnauthorizedError(f"not the secret of attempt {attempt} of job {job}")

    def _secret(self, job: str, attempt: int) -> str:
        """Made from the server's key, so that a server that starts again knows its agents."""
        return hmac.new(self.setting.key, f"{job}\0{attempt}".encode(), hashlib.sha256).hexdigest()

    def _gang(self, job: Job) -> Gang:
        return Gang(job.name, job.attempt, job.plan, job.slots, self._secret(job.name, job.attempt), self.servers)

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
        queued = [r.job.plan.compute for r in list(self.loop.jobs.values()) if r.job.state is State.QUEUED]
        return [
            ComputeView(
                name, engine.name, tuple(engine.machines()), tuple(self.store.reservations(name)), queued.count(name)
            )
            for name, engine in self.engines.items()
        ]


def preview_processes(plan: Plan) -> tuple[ProcessSpec, ...]:
    """The processes with stand-ins for what only the nodes know: `@node0` for addresses and folders."""
    members = tuple(
        Member(
            node=node,
            host=f"@node{node}",
            address=f"@node{node}",
            root=f"@node{node}",
            checkpoints="@checkpoints",
            gpus=tuple(f"@gpu{n}" for n in range(plan.gpus_per_node)),
        )
        for node in range(plan.nodes)
    )
    roster = Roster(1, 1, members, port=0)
    processes = [process for node in range(plan.nodes) for process in launch.render(plan, roster, node)]
    for process in processes:
        if "MASTER_PORT" in process.set:
            process.set["MASTER_PORT"] = "@free-port"
    return tuple(processes)
