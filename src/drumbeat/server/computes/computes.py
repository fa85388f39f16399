"""Computes as users use them: listed with their machines and reservations, created and deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from drumbeat.core.scheduling import autoscaling
from drumbeat.jobfile.compute.compute_keys import ScaledCompute
from drumbeat.jobfile.compute.computes import compute_from
from drumbeat.jobfile.compute.remote_compute import RemoteCompute
from drumbeat.model.api.computes import ComputeView, HeldView, Machine, Scale
from drumbeat.model.states import Reason
from drumbeat.ports.engines import ElasticEngine
from drumbeat.server.computes.agent_addresses import AgentAddresses
from drumbeat.server.computes.compute_state import ComputeState
from drumbeat.server.computes.engines import Engines
from drumbeat.server.computes.node_states import NodeStates
from drumbeat.server.computes.scaler import scaling_limits
from drumbeat.server.computes.usage_tables import HeldByAttempt
from drumbeat.server.database.records import Reservation
from drumbeat.server.loop.loop import Loop


class Computes:
    """Lists, creates and deletes computes. Thread-safe."""

    def __init__(self, loop: Loop, engines: Engines, addresses: AgentAddresses, states: NodeStates) -> None:
        self._loop, self._engines, self._addresses, self._states = loop, engines, addresses, states

    def list(self) -> list[ComputeView]:
        """All computes."""
        jobs = self._jobs()
        return [self._view(name, state, jobs) for name, state in self._engines.all().items()]

    def show(self, name: str) -> ComputeView:
        """One compute. Raises NotFoundError."""
        return self._view(name, self._engines.state(name), self._jobs())

    def create(self, document: Mapping[str, object], source: str = "compute") -> tuple[ComputeView, bool]:
        """Creates the compute of a document. Returns it, and whether it is new. Idempotent.

        Raises SpecError; ConflictError while jobs use another compute of this name; RefusedError and EngineError if
        its engine can't be created.
        """
        spec = compute_from(document, source)
        before = self._engines.all().get(spec.name)
        if isinstance(spec, RemoteCompute) and spec.server_address and (before is None or before.spec != spec):
            self._addresses.require(spec.server_address)
        is_new = self._engines.create(spec)
        return self.show(spec.name), is_new

    def scale(self, name: str, changes: Mapping[str, object]) -> ComputeView:
        """Changes `min_instances`, `max_instances`, `idle_time_before_scale_down` of a compute that jobs may use.

        Raises NotFoundError, SpecError; RefusedError where the number of machines is fixed.
        """
        self._engines.scale(name, changes)
        return self.show(name)

    def delete(self, name: str) -> None:
        """Deletes a compute. Raises NotFoundError; ConflictError while jobs use it, or if it is built-in."""
        self._engines.delete(name)

    def _jobs(self) -> _Jobs:
        unfinished = self._loop.jobs
        queued = [job.plan.compute for job in unfinished.queued()]
        return _Jobs(queued, {name for name, record in unfinished.items() if record.job.reason is Reason.HANGING})

    def _view(self, name: str, state: ComputeState, jobs: _Jobs) -> ComputeView:
        held = self._loop.store.reservations(name)
        busy = {one.slot.machine for one in held}
        _, holders = self._loop.store.held_by_attempt(name)
        return ComputeView(
            name,
            state.engine.name,
            machines=tuple(self._as_seen(name, machine, busy) for machine in state.machines),
            held=tuple(_held(one, jobs.hanging, holders.get((one.job, one.attempt))) for one in held),
            waiting=jobs.queued.count(name),
            trouble=state.trouble,
            spec=dict(state.document or {}),
            scale=_scale(state),
            remarks=_remarks(state),
        )

    def _as_seen(self, compute: str, machine: Machine, busy: Collection[str]) -> Machine:
        seen = self._states.observed(compute, machine, busy)
        return replace(machine, state=seen.state, since=seen.since, why=machine.why or machine.unusable)


class _Jobs(NamedTuple):
    """The jobs that haven't ended."""

    queued: list[str]
    """The computes for which jobs wait, one for each job."""
    hanging: set[str]


def _held(one: Reservation, hanging: Collection[str], holder: HeldByAttempt | None) -> HeldView:
    slot, is_hanging = one.slot, one.job in hanging
    user, since = (holder.held.user, holder.held.since) if holder else ("", None)
    return HeldView(one.job, one.attempt, slot.node, slot.machine, slot.cpus, slot.gpus, is_hanging, user, since)


def _scale(state: ComputeState) -> Scale | None:
    """Returns the limits in effect: the cluster's, with the compute's own cap below them; or the compute's own."""
    cap = state.spec.max_instances if isinstance(state.spec, ScaledCompute) else None
    if state.scale:
        return replace(state.scale, max_instances=min(state.scale.max_instances, cap or state.scale.max_instances))
    machines = len(state.machines)
    if isinstance(state.engine, ElasticEngine) and (limits := scaling_limits(state)):
        idle_s = limits.idle_time.total_seconds() if limits.idle_time else None
        return Scale(limits.fewest, limits.most, idle_s, usual_start_s=state.engine.usual_start_s())
    return Scale(machines, machines) if machines else None


def _remarks(state: ComputeState) -> tuple[str, ...]:
    if not state.scale or not state.document:
        return ()
    scale, wish = state.scale, state.document
    actual = {
        "min_instances": scale.min_instances,
        "idle_time_before_scale_down": scale.idle_time_s,
        "tier": scale.tier.value,
    }
    sentences = autoscaling.cluster_overrides(
        wish, actual, {key: by for key, by in scale.set_by.items() if key in actual}
    )
    cap = wish.get("max_instances")
    if isinstance(cap, int) and cap > scale.max_instances:
        by = scale.set_by.get("max_instances", "its machines")
        sentences = (
            *sentences,
            f"max_instances is {cap} in the compute's file, and the cluster has {scale.max_instances} ({by})",
        )
    return sentences
