"""Computes as people use them: listed with their machines and reservations, created and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from drumbeat.control.computes.agent_addresses import AgentAddresses
from drumbeat.control.computes.engines import ComputeState, Engines
from drumbeat.control.loop.loop import Loop
from drumbeat.dialect.compute.computes import RemoteCompute, compute_from
from drumbeat.ports import Machine, Reservation


@dataclass(frozen=True)
class ComputeUsage:
    """A compute, who holds its slots, and how many jobs wait for them."""

    name: str
    engine: str
    machines: tuple[Machine, ...]
    held: tuple[Reservation, ...]
    waiting: int
    """How many jobs wait for its slots."""
    trouble: str = ""
    """Why no job can start there now, "" = jobs can."""
    spec: Mapping[str, object] = field(default_factory=dict[str, object])
    """The document that a person wrote, empty for a compute of the server's own."""


class Computes:
    """Lists, creates and deletes computes. Thread-safe."""

    def __init__(self, loop: Loop, engines: Engines, addresses: AgentAddresses) -> None:
        self._loop, self._engines, self._addresses = loop, engines, addresses

    def list(self) -> list[ComputeUsage]:
        """All computes."""
        queued = self._queued()
        return [self._view(name, state, queued) for name, state in self._engines.all().items()]

    def show(self, name: str) -> ComputeUsage:
        """One compute. Raises NotFoundError."""
        return self._view(name, self._engines.known(name), self._queued())

    def create(self, document: Mapping[str, object], source: str = "compute") -> tuple[ComputeUsage, bool]:
        """Creates the compute of a document; returns it, and whether it is new. The same document again succeeds.

        Raises SpecError; ConflictError when jobs use another compute of this name; RefusedError and EngineError when
        its engine can't be made.
        """
        spec = compute_from(document, source)
        before = self._engines.all().get(spec.name)
        if isinstance(spec, RemoteCompute) and spec.server_address and (before is None or before.spec != spec):
            self._addresses.require(spec.server_address)
        is_new = self._engines.create(spec)
        return self.show(spec.name), is_new

    def delete(self, name: str) -> None:
        """Deletes a compute. Raises NotFoundError; ConflictError while jobs use it, or for one of the server's own."""
        self._engines.delete(name)

    def _queued(self) -> list[str]:
        return [job.plan.compute for job in self._loop.jobs_queued(self._loop.unfinished())]

    def _view(self, name: str, state: ComputeState, queued: list[str]) -> ComputeUsage:
        held = tuple(self._loop.store.reservations(name))
        document = state.document or {}
        return ComputeUsage(name, state.engine.name, state.machines, held, queued.count(name), state.trouble, document)
