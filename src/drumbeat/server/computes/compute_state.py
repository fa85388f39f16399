"""A compute as a server knows it: its engine, its machines, what a user wrote, and what may be used of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from drumbeat.jobfile.compute.compute_keys import SCALE_KEYS, ScaledCompute
from drumbeat.jobfile.compute.computes import Compute as Spec
from drumbeat.jobfile.compute.computes import compute_from
from drumbeat.model.api.computes import Machine, NodeState, Scale
from drumbeat.ports.engines import ElasticEngine, Engine
from drumbeat.server.computes.broken_engine import BrokenEngine
from drumbeat.server.loop.placer import Cap

MISSING_AFTER_S = 300.0
"""A machine that has been unusable for longer is missing. Before, for example during a restart, the first job that
needs it keeps its place in the queue: if later jobs started meanwhile, it would have to wait for them afterwards."""


@dataclass(frozen=True)
class ComputeState:
    """A compute with its engine and its machines at the last look."""

    engine: Engine
    document: dict[str, object] | None = None
    """What a user wrote; None where wiring gave the engine."""
    spec: Spec | None = None
    """The parsed document; None if it is invalid."""
    machines: tuple[Machine, ...] = ()
    tried_at: float = 0.0
    """When creating its engine was last tried, by the monotonic clock."""
    problem: str = ""
    """Why reading its machines failed, "" = it didn't."""
    scale: Scale | None = None
    """The number of machines by its engine; None = the engine doesn't report one."""
    unusable_since: Mapping[str, float] = field(default_factory=dict[str, float])
    """When this server first saw each unusable machine so, by the monotonic clock."""

    def seen(self, machines: tuple[Machine, ...], at: float) -> ComputeState:
        """Returns the compute with new readings of its machines. A machine that is off is usable: jobs start it."""
        unusable = [one.name for one in machines if one.unusable and one.state is not NodeState.OFF]
        since = {name: self.unusable_since.get(name, at) for name in unusable}
        return replace(self, machines=machines, unusable_since=since)

    def missing(self, at: float) -> frozenset[str]:
        """Returns the machines that have been unusable for longer than `MISSING_AFTER_S`."""
        return frozenset(name for name, since in self.unusable_since.items() if at - since >= MISSING_AFTER_S)

    def is_visible(self, place: str) -> bool:
        """Whether a path on this machine is the same files as on the compute's nodes.

        A shared folder that only the nodes mount is another folder on this machine.
        """
        if self.spec is None:
            return self.document is None  # This machine itself.
        share = self.spec.share_at(place)
        is_mounted_here = share is None or (not share.mount and (share.type == "path" or os.path.ismount(share.path)))
        return is_mounted_here and self.spec.sees(Path(place))

    @property
    def trouble(self) -> str:
        """Why no job can start there even if it is idle; "" = jobs can start."""
        if isinstance(self.engine, BrokenEngine):
            return self.engine.why
        if any(machine.cpus for machine in self.machines):
            return ""
        reasons = "; ".join(f"{one.name}: {one.unusable}" for one in self.machines if one.unusable)
        return self.problem or reasons or "its machines are not known yet"

    @property
    def is_awaited(self) -> bool:
        """Whether some of its machines have never answered yet."""
        is_unheard = not self.machines and not self.problem and not isinstance(self.engine, BrokenEngine)
        return is_unheard or any(one.is_awaited for one in self.machines)

    @property
    def prepare(self) -> str:
        """The script that each node runs before the ranks of a job, "" = none."""
        return (self.spec.prepare or "") if self.spec else ""

    def path_first(self, own: str) -> tuple[str, ...]:
        """Returns the folders that come first on the PATH of ranks there. own: the server's folder of programs."""
        path = own if self.document is None else self.spec.path_first(own) if self.spec else ""
        return (path,) if path else ()


def is_same_but_for_scale(one: Mapping[str, object] | None, other: Mapping[str, object] | None) -> bool:
    """Whether two documents differ at most in the keys that `scale` changes."""
    if one is None or other is None:
        return False
    bare, bare_other = ({k: v for k, v in each.items() if k not in SCALE_KEYS} for each in (one, other))
    return bare == bare_other


def followed(one: ComputeState, stored: dict[str, object] | None) -> ComputeState:
    """Returns the compute with the scale that another server has stored."""
    if stored is None or one.spec is None or one.document == stored:
        return one
    if not is_same_but_for_scale(one.document, stored):
        return one
    return replace(one, document=stored, spec=compute_from(stored, f"compute {one.spec.name}"))


def machine_cap(one: ComputeState) -> Cap | None:
    """Returns how many machines jobs may use at a time, None = all."""
    most = one.spec.max_instances if isinstance(one.spec, ScaledCompute) else None
    if one.engine.has_queue:
        return None if most is None else Cap(most)
    if not isinstance(one.engine, ElasticEngine):
        return None
    return Cap(most or len(one.machines), one.engine.usual_start_s())
