"""The gangs of one server's compute on a Ray cluster: submitted, observed, ended step by step."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from drumbeat.engines.agent_archive import agent_archive
from drumbeat.engines.ray import render
from drumbeat.engines.ray.dashboard import Dashboard, Filter, package
from drumbeat.engines.ray.names import (
    LEAVING,
    NAMESPACE,
    NOTICE,
    START,
    STOP,
    actor_name,
    job_name,
    parse_actor,
    parse_job,
)
from drumbeat.engines.ray.states import STARTING_JOB, GangView, stuck_reason
from drumbeat.jobfile.compute.ray import RayCompute
from drumbeat.model.api.computes import NodeState
from drumbeat.ports.engines import Gang

Json = dict[str, Any]


@dataclass(frozen=True)
class ClusterView:
    """The dashboard's lists: machines by id, groups by name, living actors by gang and node."""

    nodes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    groups: Mapping[str, Json] = field(default_factory=dict[str, Json])
    actors: Mapping[str, dict[int, Json]] = field(default_factory=dict[str, dict[int, Json]])
    leaving: Mapping[str, set[int]] = field(default_factory=dict[str, set[int]])
    """By gang, the nodes whose machines are being drained."""

    @property
    def states(self) -> dict[str, NodeState]:
        """The states of machines on which gangs run, by id."""
        return {
            str(actor.get("node_id")): NodeState.LEAVING if node in self.leaving.get(gang, ()) else NodeState.RUNNING
            for gang, actors in self.actors.items()
            for node, actor in actors.items()
        }


class RayGangs:
    """The gangs of one compute. prefix: starts the names of its gangs in Ray."""

    tidy_s = 60.0
    """How long finished jobs are kept."""

    def __init__(self, dashboard: Dashboard, spec: RayCompute, prefix: str) -> None:
        self._dashboard, self._spec, self._prefix = dashboard, spec, prefix
        self._over_since: dict[str, float] = {}

    def object_name(self, gang: str) -> str:
        """The name of a gang's objects in Ray."""
        return self._prefix + gang

    # --- look -------------------------------------------------------------------------------------------------
    def look(self) -> ClusterView:
        """The lists that all gangs share."""
        nodes = {one["node_id"]: one for one in self._dashboard.listed("nodes")}
        listed = self._dashboard.listed("placement_groups", ("state", "!=", "REMOVED"))
        groups = {one["name"]: one for one in listed if (one.get("name") or "").startswith(self._prefix)}
        actors: dict[str, dict[int, Json]] = {}
        leaving: dict[str, set[int]] = {}
        for gang, kind, node, actor in self._actors(("state", "!=", "DEAD")):
            if not kind:
                actors.setdefault(gang, {})[node] = actor
        for gang, kind, node, _ in self._actors(("class_name", "=", NOTICE)) if actors else ():
            if kind == LEAVING:
                leaving.setdefault(gang, set()).add(node)
        return ClusterView(nodes, groups, actors, leaving)

    def _actors(self, condition: Filter) -> Iterator[tuple[str, str, int, Json]]:
        """The compute's actors: gang, kind, node and the actor itself. Ray lists dead ones for long."""
        for one in self._dashboard.listed("actors", ("ray_namespace", "=", NAMESPACE), condition):
            parsed = parse_actor(one.get("name") or "")
            if parsed is not None and parsed[0].startswith(self._prefix):
                yield *parsed, one

    def view(self, gang: Gang, cluster: ClusterView) -> GangView:
        """One gang's view. Its jobs and dead actors are fetched only where they matter."""
        name = self.object_name(gang.name)
        actors = dict(cluster.actors.get(name, {}))
        job = None
        if len(actors) < len(gang.slots):
            job = _latest(self._numbered_jobs(name, START))
            missing = [] if _is_running(job) else [node for node in range(len(gang.slots)) if node not in actors]
            for node in missing:
                if dead := self._dead_actor(actor_name(name, node), job):
                    actors[node] = dead
        leaving = frozenset(cluster.leaving.get(name, ()))
        return GangView(job, cluster.groups.get(name), actors, cluster.nodes, leaving)

    def _dead_actor(self, name: str, job: Json | None) -> Json | None:
        """The dead actor that this job created: a restarted gang uses the same names."""
        driver = (job or {}).get("job_id")
        listed = self._dashboard.listed("actors", ("name", "=", name))
        return next((one for one in listed if not driver or one.get("job_id") == driver), None)

    def _numbered_jobs(self, name: str, verb: str) -> dict[int, Json]:
        """The jobs that start or end a gang, by number."""
        parsed = ((parse_job(key), job) for key, job in self._dashboard.jobs().items())
        return {parts[2]: job for parts, job in parsed if parts and parts[:2] == (name, verb)}

    # --- start ------------------------------------------------------------------------------------------------
    def submit(self, gang: Gang) -> None:
        """Submits a job that starts the gang, unless one does so already. Raises DrumbeatError."""
        name = self.object_name(gang.name)
        jobs = self._numbered_jobs(name, START)
        if not _is_running(_latest(jobs)):
            self._submit(name, START, jobs, render.start_files(self._spec, gang, name, agent_archive()))

    def has_begun(self, gang: str) -> bool:
        """Whether a job starts the gang or has started it."""
        name = self.object_name(gang)
        return _is_running(_latest(self._numbered_jobs(name, START))) or bool(self._remainder(name, self.look()))

    def _submit(self, name: str, verb: str, jobs: Mapping[int, Json], files: Mapping[str, bytes]) -> None:
        uri = self._dashboard.upload(package(files))
        self._dashboard.submit(render.gang_job(name, verb, max(jobs, default=0) + 1, uri))

    # --- end --------------------------------------------------------------------------------------------------
    def names(self) -> set[str]:
        """All gangs of this compute that run, wait or are starting."""
        cluster = self.look()
        jobs = {parts[0] for name, job in self._own_jobs().items() if _is_running(job) and (parts := parse_job(name))}
        return {one.removeprefix(self._prefix) for one in {*jobs, *cluster.groups, *cluster.actors}}

    def _own_jobs(self) -> dict[str, Json]:
        return {name: job for name, job in self._dashboard.jobs().items() if name.startswith(self._prefix)}

    def is_left(self, gang: str) -> bool:
        """Whether the gang's group or some of its actors exist."""
        return bool(self._remainder(self.object_name(gang), self.look()))

    def end(self, gang: str) -> str:
        """Takes the next step towards the gang's end; returns what is left to end, "" =
        nothing. Raises DrumbeatError.
        """
        name = self.object_name(gang)
        for number, job in self._numbered_jobs(name, START).items():
            if _is_running(job):
                self._dashboard.stop_job(job_name(name, START, number))
                return f"Ray job {job_name(name, START, number)} is still ending"
        endings = self._numbered_jobs(name, STOP)
        last = _latest(endings)
        if _is_running(last):
            return f"a Ray job is still ending the nodes of {name}"
        left = self._remainder(name, self.look())
        if left:
            self._submit(name, STOP, endings, render.stop_files(self._spec, name, agent_archive()))
        return stuck_reason(last) if left and last and last["status"] == "FAILED" else left

    def tidy(self, present: Collection[str]) -> None:
        """Deletes the jobs of gangs that are over from Ray's list, but not those that ended a moment ago: Ray would
        list them again.

        present: gangs that aren't over.
        """
        jobs = {name: job for name, job in self._own_jobs().items() if not _is_running(job)}
        now = time.monotonic()
        self._over_since = {name: self._over_since.get(name, now) for name in jobs}
        for name in jobs:
            parts = parse_job(name)
            is_present = parts is not None and parts[0].removeprefix(self._prefix) in present
            if not is_present and now - self._over_since[name] >= self.tidy_s:
                self._dashboard.delete_job(name)

    @staticmethod
    def _remainder(name: str, cluster: ClusterView) -> str:
        if name in cluster.actors:
            return f"{len(cluster.actors[name])} actors of {name} are still alive"
        return f"placement group {name} still holds its machines" if name in cluster.groups else ""


def _latest(jobs: Mapping[int, Json]) -> Json | None:
    return jobs[max(jobs)] if jobs else None


def _is_running(job: Json | None) -> bool:
    return job is not None and job["status"] in STARTING_JOB
