"""The watch over endpoints: keeps the router and its table, and tells deployments what is asked of them and seen.

Everything here is a level: what is asked is read from the database, what is there from jobs and from the router, and
a server that was killed in between goes on from both.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drumbeat.core.child_jobs import DeploymentProgress, ReplicaProgress, replica_name
from drumbeat.core.lifecycle.deployment import STEADY_AFTER
from drumbeat.core.lifecycle.events import ReplicasSeen, ReplicaSteady
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.serving.scaling import LOOKS_BEFORE_SHRINKING, LoadLook, ScalingRule, wanted_instances
from drumbeat.model.errors import DrumbeatError
from drumbeat.model.routing_table import DeploymentRoute, digest
from drumbeat.model.scoring_tokens import replica_secret
from drumbeat.model.states import State
from drumbeat.ports.engines import node_secret
from drumbeat.server.computes.agent_addresses import AgentAddresses
from drumbeat.server.endpoints.catalog import StoredDeployment, StoredEndpoint
from drumbeat.server.endpoints.online_endpoints import DELETES, OnlineEndpoints, asked, endpoint_route, first_wanted
from drumbeat.server.endpoints.router_program import RouterProgram
from drumbeat.server.jobs.jobs import Jobs
from drumbeat.server.loop.bus import JOB, Topic
from drumbeat.server.loop.loop import Loop
from drumbeat.server.nodes.engine_gangs import Secrets

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 0.5
"""How often the router and all deployments are looked at; at once when something has changed."""
MIN_INTERVAL_S = 0.05
ADDRESS_INTERVAL_S = 5.0
"""How often a compute is asked again at which addresses of this machine its agents call."""
SETTLE_S = 5.0
"""How long a router that has just been started may be without its replicas."""


@dataclass
class Load:
    """The last looks at the load of a deployment."""

    looks: deque[LoadLook] = field(default_factory=lambda: deque[LoadLook](maxlen=LOOKS_BEFORE_SHRINKING))
    due_at: float = 0.0
    """When the next look is due, by a monotonic clock."""


class DeploymentWatch:
    """Looks after the router and all deployments, on a thread of its own."""

    def __init__(
        self, loop: Loop, endpoints: OnlineEndpoints, jobs: Jobs, secrets: Secrets, addresses: AgentAddresses,
        router: RouterProgram,
    ) -> None:  # fmt: skip
        self._loop, self._endpoints, self._jobs = loop, endpoints, jobs
        self._secrets, self._addresses, self._router = secrets, addresses, router
        self._unreachable: dict[str, tuple[str, float]] = {}
        """Computes whose agents can't call this server: why, and when they are looked at again."""
        self._loads: dict[tuple[str, str], Load] = {}
        self._names: frozenset[str] = frozenset()
        """Jobs of deployments and of their replicas."""
        self._router_since = self._loop.clock.monotonic()
        self._has_router = True
        """Whether a router may be there, which a server that starts doesn't know."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="endpoints", daemon=True)
        self._unsubscribe = loop.bus.subscribe(self._hear)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. The router goes on."""
        self._unsubscribe()
        self._stopping.set()
        self._endpoints.changed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def _hear(self, topic: Topic) -> None:
        if topic.kind == JOB and topic.name in self._names:
            self._endpoints.changed.set()

    def _run(self) -> None:
        changed = self._endpoints.changed
        while not self._stopping.wait(MIN_INTERVAL_S):
            try:
                is_needed = self.look()
            except Exception:
                is_needed = True
                if not self._stopping.is_set():
                    log.exception("could not look after the endpoints; trying again")
            changed.wait(LOOK_INTERVAL_S if is_needed else None)
            changed.clear()

    # --- a look -----------------------------------------------------------------------------------------------
    def look(self) -> bool:
        """Looks after everything once. Returns whether there is an endpoint. Raises DrumbeatError, OSError."""
        if not self._loop.is_current:
            return True
        catalog = self._endpoints.catalog
        endpoints = catalog.endpoints()
        if not endpoints:
            if self._has_router:
                self._router.end()
                self._has_router = False
            return False
        self._has_router = True
        numbers = self._numbers()
        if numbers is not None:
            self._endpoints.requests.note(numbers, self._loop.clock.now().timestamp())
        deployments = catalog.deployments()
        for one in deployments:
            try:
                self._look_after(one, numbers)
            except DrumbeatError as error:
                log.warning("deployment %s: %s", "/".join(one.key), error)
        with self._endpoints.lock:
            self._remove_deleted(endpoints, catalog.deployments())
        self._tell_router()
        return True

    def _numbers(self) -> dict[tuple[str, str], dict[str, Any]] | None:
        """Returns what the router counts by deployment; None = it isn't there, or has just been started."""
        if self._router.is_dead:
            self._tell_router()
            if self._router.keep():
                self._router_since = self._loop.clock.monotonic()
            return None
        numbers = self._router.numbers()
        if numbers is None or self._loop.clock.monotonic() - self._router_since < SETTLE_S:
            return None
        return {tuple(one["name"].split("/")): one for one in numbers["deployments"]}

    def _look_after(self, stored: StoredDeployment, numbers: Mapping[tuple[str, str], dict[str, Any]] | None) -> None:
        job = self._endpoints.job(stored)
        if job is None or job.deployment is None or job.state.is_terminal:
            return
        if stored.is_deleting:
            if job.state is State.RUNNING:
                self._jobs.cancel(job.name, DELETES)
            return
        counted = numbers.get(stored.key) if numbers is not None else None
        if counted is not None:
            self._see_replicas(job, job.deployment, counted)
        wanted, sentence = self._wanted(stored, job.deployment, counted)
        ask = asked(stored, wanted, sentence)
        now = job.deployment
        if (ask.generation, ask.wanted, ask.ready_within_s, ask.snapshots) != (
            now.generation, now.wanted, now.ready_within_s, now.snapshots
        ):  # fmt: skip
            self._loop.tell(job.name, ask)

    def _see_replicas(self, job: Job, progress: DeploymentProgress, counted: Mapping[str, Any]) -> None:
        ready = frozenset(name for name, one in counted["replicas"].items() if one["permits"])
        ready_before = frozenset(replica_name(job.name, one.number) for one in progress.replicas if one.is_ready)
        is_awaited = any(one.started_at and not one.was_ready for one in progress.replicas)
        if ready != ready_before or is_awaited or progress.failures:
            self._loop.tell(job.name, ReplicasSeen(ready))
        for one in progress.replicas:
            self._forgive(replica_name(job.name, one.number), one)

    def _forgive(self, name: str, replica: ReplicaProgress) -> None:
        """Forgets the failures of a replica that has been ready for a while since the last one."""
        now, record = self._loop.clock.now(), self._loop.jobs.get(name)
        if record is None or not record.job.failures or replica.ready_since is None:
            return
        since = max(replica.ready_since, record.job.failures[-1].at)
        if now - since >= STEADY_AFTER:
            seconds = f"{STEADY_AFTER.total_seconds():g}"
            sentence = f"has taken requests for {seconds} s: its failures before count no more"
            self._loop.tell(name, ReplicaSteady(record.job.attempt, record.job.round, sentence))

    def _wanted(
        self, stored: StoredDeployment, progress: DeploymentProgress, counted: Mapping[str, Any] | None
    ) -> tuple[int, str]:
        """Returns how many replicas a deployment should have, and why if that isn't what the user wrote."""
        scale = stored.definition.scale_settings
        if scale.type == "default":
            self._loads.pop(stored.key, None)
            return first_wanted(stored.definition), ""
        rule = ScalingRule(
            scale.min_instances,
            scale.max_instances,
            scale.target_utilization_percentage,
            stored.definition.request_settings.max_concurrent_requests_per_instance,
        )
        load = self._loads.setdefault(stored.key, Load())
        if counted is not None and self._loop.clock.monotonic() >= load.due_at:
            load.due_at = self._loop.clock.monotonic() + scale.polling_interval_s
            load.looks.append(LoadLook(counted["busy"], counted["waiting"]))
        answer = wanted_instances(rule, progress.wanted, list(load.looks))
        if answer.count == progress.wanted:
            return answer.count, ""
        load.looks.clear()
        return answer.count, answer.sentence

    def _remove_deleted(self, endpoints: list[StoredEndpoint], deployments: list[StoredDeployment]) -> None:
        left: list[StoredDeployment] = []
        for one in deployments:
            job = self._endpoints.job(one) if one.is_deleting else None
            if one.is_deleting and (job is None or job.state.is_terminal):
                self._endpoints.catalog.remove_deployment(one)
                self._loads.pop(one.key, None)
            else:
                left.append(one)
        for endpoint in endpoints:
            name = endpoint.definition.name
            if endpoint.is_deleting and not any(one.definition.endpoint_name == name for one in left):
                self._endpoints.catalog.remove_endpoint(name)
                self._endpoints.changed.set()

    # --- the table --------------------------------------------------------------------------------------------
    def _tell_router(self) -> None:
        catalog = self._endpoints.catalog
        deployments: dict[str, dict[str, DeploymentRoute]] = {}
        names: set[str] = set()
        computes: set[str] = set()
        for one in catalog.deployments():
            if (job := self._endpoints.job(one)) and job.deployment:
                computes |= self._computes(job, job.deployment)
                endpoint, name = one.key
                deployments.setdefault(endpoint, {})[name] = self._route(one, job, job.deployment)
                names |= {job.name, *(replica_name(job.name, each.number) for each in job.deployment.replicas)}
        self._names = frozenset(names)
        routes = {
            one.definition.name: endpoint_route(one, deployments.get(one.definition.name, {}))
            for one in catalog.endpoints()
            if not one.is_deleting
        }
        self._open_doors(computes)
        self._router.write(routes)

    def _computes(self, job: Job, progress: DeploymentProgress) -> set[str]:
        """Returns the computes on which replicas of a deployment run, or will."""
        records = [self._loop.jobs.get(replica_name(job.name, one.number)) for one in progress.replicas]
        return {job.plan.compute, *(one.job.plan.compute for one in records if one is not None)}

    def _open_doors(self, computes: Iterable[str]) -> None:
        """Has the router listen where the agents of these computes call the server."""
        ips: dict[str, tuple[str, ...]] = {}
        unreachable: dict[str, tuple[str, float]] = {}
        now = self._loop.clock.monotonic()
        for compute in sorted(computes):
            problem, due_at = self._unreachable.get(compute, ("", 0.0))
            if now < due_at:
                unreachable[compute] = problem, due_at
                continue
            try:
                ips |= self._addresses.ips(compute)
            except DrumbeatError as error:
                if str(error) != problem:
                    log.warning("replicas on compute %s can't call the router: %s", compute, error)
                unreachable[compute] = str(error), now + ADDRESS_INTERVAL_S
        self._unreachable = unreachable
        self._router.open_doors(ips, is_complete=not unreachable)

    def _route(self, stored: StoredDeployment, job: Job, progress: DeploymentProgress) -> DeploymentRoute:
        settings, scale = stored.definition.request_settings, stored.definition.scale_settings
        is_scaled_to_zero = scale.type == "target_utilization" and scale.min_instances == 0
        own, runs = stored.definition.drumbeat, stored.generations.get(str(stored.generation), stored.definition)
        return DeploymentRoute(
            concurrency=settings.max_concurrent_requests_per_instance,
            instances=max(1, progress.wanted),
            timeout_ms=settings.request_timeout_ms,
            queue_wait_ms=settings.max_queue_wait_ms,
            cold_start_ms=int(own.cold_start_s * 1000) if is_scaled_to_zero else 0,
            has_retry=own.retry,
            passes_errors=bool(runs.inference_config),
            replicas=self._digests(job, progress),
            reason=f"The deployment {stored.definition.name} has no replica that is ready: {job.sentence}",
            is_ending=stored.is_deleting,
        )

    def _digests(self, job: Job, progress: DeploymentProgress) -> dict[str, str]:
        """Returns the digest of the secret of each replica, as its node's agent derives it for the attempt."""
        digests: dict[str, str] = {}
        for one in progress.replicas:
            name = replica_name(job.name, one.number)
            record = self._loop.jobs.get(name)
            if record is None or not record.job.attempt:
                continue
            child = record.job
            secret = self._secrets.of(child.name, child.attempt, child.first_version)
            digests[name] = digest(replica_secret(node_secret(secret, 0)))
        return digests
