"""The keys that computes have in common."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from drumbeat.jobfile.compute.compute_values import ComputeTitle
from drumbeat.jobfile.compute.shares import Share
from drumbeat.jobfile.reading.field_types import AsText, Count, Filled, Tally, Text, Wait
from drumbeat.jobfile.reading.model import Contradiction, Model
from drumbeat.model.shares import SharePlan


class CheckpointScope(StrEnum):
    """Which nodes of a compute see a job's folder of checkpoints."""

    COMPUTE = "compute"
    """All of them."""
    MACHINE = "machine"
    """Those on the same machine; all, if the folder happens to be shared."""
    NODE = "node"
    """One alone, with which it ends."""


class ComputeKeys(Model):
    """The keys that every compute has."""

    noun: ClassVar[str] = "the compute"
    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})

    name: ComputeTitle = Field(description="Name that jobs use, as in `compute: rack`.")
    description: Text | None = Field(default=None, description="Description of its purpose.")
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free-form labels.")
    prepare: Filled | None = Field(
        default=None,
        description="Shell script that each node runs before a job's ranks start; if it fails, the job fails.",
    )

    shares: Annotated[list[Share], Field(max_length=20)] = Field(
        default_factory=list["Share"],
        description="File systems that every node has at one path; a node without one is not used for a job.",
    )

    def contradictions(self) -> Iterator[Contradiction]:
        for key in ("name", "path"):
            values = [getattr(one, key).rstrip("/") for one in self.shares]
            for place, value in enumerate(values):
                if value in values[:place]:
                    yield Contradiction(("shares", place, key), f"two shares have the {key} {value}", "Take one out.")

    def share_at(self, path: str) -> SharePlan | None:
        """The share on which a path of the nodes lies, None = it lies on none."""
        return next((one for one in self.share_plans if one.has(path)), None)

    @property
    def share_plans(self) -> tuple[SharePlan, ...]:
        """The shares as nodes check them."""
        return tuple(
            SharePlan(one.name, one.type, one.path, one.source or "", one.mount, tuple(one.options), one.writable)
            for one in self.shares
        )

    def path_first(self, own: str) -> str:
        """The folder of programs that its ranks find first, "" = none. own: the server's."""
        return own

    @property
    def checkpoint_scope(self) -> CheckpointScope:
        """Which of its nodes see a job's folder of checkpoints."""
        return CheckpointScope.COMPUTE

    def sees(self, place: Path) -> bool:
        """Whether its nodes have what the server's machine has at that path, under the same path."""
        del place
        return True


class ScaledCompute(ComputeKeys):
    """The keys of computes whose machines come and go."""

    min_instances: Tally | None = Field(
        default=None, description="Number of machines that stay on while no job needs them."
    )
    max_instances: Count | None = Field(default=None, description="Most machines that jobs use at a time.")
    idle_time_before_scale_down: Wait | None = Field(
        default=None, description="Seconds without a job after which a machine is switched off."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        yield from super().contradictions()
        fewest, most = self.min_instances, self.max_instances
        if fewest is not None and most is not None and fewest > most:
            what = f"min_instances is {fewest}, and max_instances is {most}"
            yield Contradiction(("min_instances",), what, "Make it smaller, or raise max_instances.")


SCALE_KEYS = ("min_instances", "max_instances", "idle_time_before_scale_down")
"""The keys that `drumbeat compute scale` changes while jobs run."""
