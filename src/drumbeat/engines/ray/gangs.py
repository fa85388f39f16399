"""The gangs of one server's compute on a Ray cluster: submitted, looked at, ended step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from drumbeat.dialect.compute.ray import RayCompute
from drumbeat.engines.agent_archive import agent_archive
from drumbeat.engines.ray import render
from drumbeat.engines.ray.dashboard import Dashboard, Filter, package
from drumbeat.engines.ray.names import LEAVING, NAMESPACE, NOTICE, STOP, actor_name, parse_actor
from drumbeat.engines.ray.words import STARTING_JOB, GangView, stuck_reason
from drumbeat.ports import Gang

Json = dict[str, Any]


@dataclass(frozen=True)
class ClusterView:
    """What the dashboard lists: machines by id, groups by name, living actors by gang and node."""

    nodes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    groups: Mapping[str, Json] = field(default_factory=dict[str, Json])
    actors: Mapping[str, dict[int, Json]] = field(default_factory=dict[str, dict[int, Json]])
    leaving: Mapping[str, set[int]] = field(default_factory=dict[str, set[int]])
    """By gang, the nodes whose machines are drained."""


class RayGangs:
    """prefix: what begins the names of this compute's gangs in Ray."""

    def __init__(self, dashboard: Dashboard, spec: RayCompute, prefix: str) -> None:
        self._dashboard, self._spec, self._prefix = dashboard, spec, prefix

    def object_name(self, gang: str) -> str:
        """The name of a gang's objects in Ray."""
        return self._prefix + gang

    # --- look -------------------------------------------------------------------------------------------------
    def look(self) -> ClusterView:
        """What all gangs have in common."""
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
        """The compute's actors: gang, kind, node and the actor itself. Dead ones stay in Ray's list for long."""
        for one in self._dashboard.listed("actors", ("ray_namespace", "=", NAMESPACE), condition):
            parsed = parse_actor(one.get("name") or "")
            if parsed is not None and parsed[0].startswith(self._prefix):
                yield *parsed, one

    def view(self, gang: Gang, cluster: ClusterView) -> GangView:
        """One gang in it. The job that starts it, and actors that are dead, are asked for where they matter."""
        name = self.object_name(gang.name)
        actors = dict(cluster.actors.get(name, {}))
        job = None
        if len(actors) < len(gang.slots):
            job = self._dashboard.job(name)
            for node in range(len(gang.slots)):
                if node not in actors and (dead := self._latest(actor_name(name, node))):
                    actors[node] = dead
        leaving = frozenset(cluster.leaving.get(name, ()))
        return GangView(job, cluster.groups.get(name), actors, cluster.nodes, leaving)

    def _latest(self, name: str) -> Json | None:
        return next(iter(self._dashboard.listed("actors", ("name", "=", name))), None)

    # --- start ------------------------------------------------------------------------------------------------
    def submit(self, gang: Gang) -> None:
        """Has it started, unless a job does that already. Raises DrumbeatError."""
        name = self.object_name(gang.name)
        job = self._dashboard.job(name)
        if job and job["status"] in STARTING_JOB:
            return
        if job:
            self._dashboard.delete_job(name)
        files = render.start_files(self._spec, gang, name, agent_archive())
        self._dashboard.submit(render.start_job(name, self._dashboard.upload(package(files))))

    def has_begun(self, gang: str) -> bool:
        """Whether a job starts it, or has."""
        name = self.object_name(gang)
        job = self._dashboard.job(name)
        if job is None:
            return False
        return job["status"] in STARTING_JOB or bool(self._left_of(name, self.look()))

    # --- end --------------------------------------------------------------------------------------------------
    def names(self) -> set[str]:
        """All gangs of this compute that Ray has anything of."""
        cluster = self.look()
        jobs = {one.removesuffix(STOP) for one in self._dashboard.jobs() if one.startswith(self._prefix)}
        return {one.removeprefix(self._prefix) for one in {*jobs, *cluster.groups, *cluster.actors}}

    def is_leaving_by_itself(self, gang: str) -> bool:
        """Whether some of its actors live."""
        name = self.object_name(gang)
        return name in (cluster := self.look()).actors or name in cluster.groups

    def end(self, gang: str) -> str:
        """Takes the next step towards its end; gives what is left to end, "" = nothing. Raises DrumbeatError."""
        name = self.object_name(gang)
        starting = self._dashboard.job(name)
        if starting and starting["status"] in STARTING_JOB:
            self._dashboard.stop_job(name)
            return f"Ray job {name} still ends"
        ending = self._dashboard.job(name + STOP)
        if ending and ending["status"] in STARTING_JOB:
            return f"Ray job {name}{STOP} still ends its nodes"
        left = self._left_of(name, self.look())
        if ending:
            self._dashboard.delete_job(name + STOP)
            if left and ending["status"] != "SUCCEEDED":
                self._submit_stop(name)
                return stuck_reason(ending)
        if left:
            self._submit_stop(name)
            return left
        if starting:
            self._dashboard.delete_job(name)
        return ""

    def _submit_stop(self, name: str) -> None:
        package_uri = self._dashboard.upload(package(render.stop_files(name, agent_archive())))
        self._dashboard.submit(render.stop_job(name, package_uri))

    @staticmethod
    def _left_of(name: str, cluster: ClusterView) -> str:
        if name in cluster.actors:
            return f"{len(cluster.actors[name])} actors of {name} still live"
        return f"placement group {name} still holds its machines" if name in cluster.groups else ""
