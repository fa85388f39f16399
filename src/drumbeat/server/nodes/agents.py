"""Agents as the server hears them: who may speak for an attempt, what its nodes report, and what they should do."""

from __future__ import annotations

import hashlib
import hmac
from concurrent.futures import Future
from dataclasses import replace

from drumbeat.core.lifecycle.directive import directive
from drumbeat.core.lifecycle.events import StatusReported
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.late_nodes import is_heard_late, over
from drumbeat.model.agent import AgentStatus, Directive, Takeover
from drumbeat.model.errors import NotFoundError, SpecError, StaleError
from drumbeat.server.computes.agent_addresses import AgentAddresses
from drumbeat.server.loop.loop import Applied, Loop
from drumbeat.server.loop.work_queue import result_of
from drumbeat.server.nodes.directive_cache import DirectiveCache
from drumbeat.server.nodes.engine_gangs import GangFactory, Secrets
from drumbeat.server.nodes.heartbeats import Heartbeats
from drumbeat.server.nodes.unknown_jobs import UnknownJobs
from drumbeat.server.resources.registries import Registries

MAX_ENDED = 16
"""Ended jobs that are kept for their agents."""


class Agents:
    """Hears the agents of all gangs and answers them. Thread-safe."""

    def __init__(
        self,
        loop: Loop,
        secrets: Secrets,
        heartbeats: Heartbeats,
        addresses: AgentAddresses,
        registries: Registries,
        unknown_jobs: UnknownJobs,
    ) -> None:
        self._loop, self._secrets, self._heartbeats = loop, secrets, heartbeats
        self._gangs = GangFactory(secrets, addresses)
        self._addresses, self._registries, self._unknown = addresses, registries, unknown_jobs
        self.directives = DirectiveCache()
        self._ended: dict[str, Job] = {}
        """Jobs that have ended just now: all their agents report and ask at once."""
        loop.observers.append(self._on_change)

    def report(self, job: str, attempt: int, node: int, secret: str, status: AgentStatus) -> Directive:
        """Takes an agent's status, and returns what it should do: to leave, when its attempt is over.

        Raises UnauthorizedError, StaleError when replaced, NotFoundError, SpecError.
        """
        return self.directive_for(attempt, result_of(self.begin_report(job, attempt, node, secret, status)))

    def begin_report(self, job: str, attempt: int, node: int, secret: str, status: AgentStatus) -> Future[Job]:
        """Takes an agent's status, which is durable once the job is there. Raises as `report` does."""
        current, event = self.read_report(job, attempt, node, secret, status)
        if event:
            return self._loop.report(job, event)
        done: Future[Job] = Future()
        done.set_result(current)
        return done

    def read_report(
        self, job: str, attempt: int, node: int, secret: str, status: AgentStatus
    ) -> tuple[Job, StatusReported | None]:
        """Returns the job, and what an agent's status has of news for it. Raises as `report` does."""
        current = self._heard(job, attempt, node, secret, status)
        is_news = bool(current.nodes) and (current.nodes[node] != status or not self._loop.is_current)
        return current, StatusReported(attempt, node, status) if is_news else None

    def directive_for(self, attempt: int, job: Job) -> Directive:
        """What the agents of an attempt should do, as the job is now. Raises StaleError."""
        return self._directive(_of_attempt(attempt, job))

    def is_in_memory(self, job: str, attempt: int) -> bool:
        """Whether a job is known in that attempt without the store: then nothing here blocks but the loop's answer."""
        current = self._in_memory(job)
        return current is not None and current.attempt >= attempt

    def _in_memory(self, name: str) -> Job | None:
        if not self._loop.is_current:
            return None
        record = self._loop.jobs.get(name)
        return record.job if record else self._ended.get(name)

    def has_news_of_logs(self, job: str, attempt: int, node: int, secret: str, status: AgentStatus) -> bool:
        """Whether this status is the first to say that all logs of a round have been sent. Raises as `report` does.

        The logs must be settled before the status is reported: what follows lets go of the node.
        """
        current = self._heard(job, attempt, node, secret, status)
        before = current.nodes[node] if current.nodes else None
        is_reported = before is not None and before.round == status.round and before.has_sent_logs
        return status.has_sent_logs and not is_reported

    def _heard(self, job: str, attempt: int, node: int, secret: str, status: AgentStatus) -> Job:
        self._secrets.check(job, attempt, node, secret)
        try:
            current = self._recent(job, attempt)
        except NotFoundError:
            self._unknown.note(job)
            raise
        self._secrets.check_job(current, attempt, node, secret)
        if status.member.node != node:
            raise SpecError(f"node {node} of job {job} can't speak for node {status.member.node}")
        self._heartbeats.heard(job, attempt, node)
        return current

    def directive(self, job: str, attempt: int) -> Directive:
        """What the agents of an attempt should do now; no heartbeat is noted. Raises StaleError, NotFoundError."""
        return self._directive(self._recent(job, attempt))

    def roster(self, digest: str, job: Job) -> bytes:
        """Returns the whole roster of that digest, packed. Raises NotFoundError where the job's round has another."""
        made = self.directives.made(job, self._addresses.current(job.plan.compute))
        file = made.packed_roster
        if file is None or file.digest != digest:
            raise NotFoundError(f"job {job.name} has no roster {digest[:80]} now", fix="Ask for the directive again.")
        return file.data

    def _directive(self, job: Job) -> Directive:
        servers = self._addresses.current(job.plan.compute)
        if job.state.is_terminal and self._loop.kept_gangs.is_kept(job.name, job.attempt):
            return replace(directive(job, is_kept=True), servers=servers)
        return self.directives.directive(job, servers)

    def next_job(self, job: str, attempt: int, node: int, proof: str) -> Takeover | None:
        """Returns the job that has taken over a node, for the agent that shows its proof; None = there is none for it.

        Not once the node has enrolled for it: then another agent has it.
        """
        ended, heir = self._recent(job, attempt), self._loop.kept_gangs.next_job(job, attempt)
        before = ended.nodes[node] if node < len(ended.nodes) else None
        if not (heir and before and node < len(heir.nodes) and heir.nodes[node] is None):
            return None
        if not hmac.compare_digest(before.handover, hashlib.sha256(proof.encode()).hexdigest()):
            return None
        gang = self._gangs.of(heir)
        return Takeover(
            heir.name, heir.attempt, gang.node_secret(node), gang.peer_secret, gang.node_plan, gang.root_name
        )

    def _on_change(self, applied: Applied) -> None:
        job = applied.job
        if job.is_without_nodes:
            self.directives.forget(job.name)
        if job.state.is_terminal:
            while len(self._ended) >= MAX_ENDED:
                self._ended.pop(next(iter(self._ended)))
            self._ended[job.name] = job

    def admit(self, job: str, attempt: int, node: int, secret: str) -> Job:
        """Returns the job of an agent that shows its secret.

        Raises UnauthorizedError, NotFoundError, SpecError; StaleError when the attempt was replaced or is over.
        """
        current = self._checked(job, attempt, node, secret)
        if current.is_without_nodes:
            raise over(current)
        return current

    def admit_late(self, job: str, attempt: int, node: int, secret: str) -> None:
        """Raises as `admit` does, but also lets in a node that was cut off before it had sent all its logs."""
        current = self._checked(job, attempt, node, secret)
        if not is_heard_late(current, attempt, node, self._loop.clock.now()):
            raise over(current)

    def _checked(self, job: str, attempt: int, node: int, secret: str) -> Job:
        self._secrets.check(job, attempt, node, secret)
        current = self._current(job, attempt)
        self._secrets.check_job(current, attempt, node, secret)
        return current

    def registry_access(self, job: str) -> dict[str, object]:
        """The credentials with which a job's nodes pull its images. Raises NotFoundError."""
        container = self._loop.record(job).job.plan.container
        return self._registries.access(container.registries if container else ())

    def _recent(self, name: str, attempt: int) -> Job:
        """The same, also as memory has it of a job that has ended just now; it may have been deleted since."""
        job = self._in_memory(name)
        return _of_attempt(attempt, job) if job and job.attempt >= attempt else self._current(name, attempt)

    def _current(self, name: str, attempt: int) -> Job:
        """The job in that attempt, which memory knows only once its grant was answered. Raises StaleError."""
        job = self._loop.record(name).job
        return _of_attempt(attempt, job if job.attempt >= attempt else self._loop.store.load(name).job)


def _of_attempt(attempt: int, job: Job) -> Job:
    if job.attempt != attempt:
        raise StaleError(f"attempt {attempt} of job {job.name} has been replaced by attempt {job.attempt}")
    return job
