"""The `drumbeat:` table: what drumbeat adds to the dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from drumbeat.dialect.reading.shape import AnyCase, Contradiction, Model
from drumbeat.dialect.reading.values import Count, Filled, Tally, Text, Wait


class Checkpoints(Model):
    """How checkpoints are kept."""

    keep: Count = Field(
        default=3, description="How many of the last checkpoints stay. Refused in this version, as is the whole table."
    )


class Extensions(Model):
    """What drumbeat adds.

    Which of these a person set is in `model_fields_set`.
    """

    max_retries: Tally = Field(
        default=3, description="New starts after failures of the job's own; preemption and node loss don't count."
    )
    grace_s: Wait = Field(default=30.0, description="Seconds between SIGTERM and SIGKILL.")
    lost_after_s: Wait = Field(
        default=600.0, description="Seconds that a node which nobody can tell about is waited for."
    )
    min_nodes: Count | None = Field(
        default=None,
        description="Fewest nodes the job goes on with; `instance_count` when absent. In this version nothing else.",
    )
    max_nodes: Count | None = Field(
        default=None,
        description="Most nodes the job grows to; `instance_count` when absent. In this version nothing else.",
    )
    warm_start: bool = Field(
        default=True,
        description="Whether ranks start in prepared interpreters. Not in this version: refused, except `false`.",
    )
    hang_after_s: Wait = Field(
        default=600.0,
        description="Seconds of silence before a hang is looked for; 0 is never. In this version nothing else.",
    )
    environment: Annotated[Literal["job", "current"], AnyCase()] = Field(
        default="job", description="`job` takes the job's environment, `current` the server's own interpreter."
    )
    prepare: Filled | None = Field(
        default=None,
        description="Shell text that each node runs before its ranks start; its failure is the job's. A job that is "
        "canceled meanwhile gives it 2 s to end.",
    )
    mpi_options: list[Text] = Field(default_factory=list, description="Words added to the `mpirun` line.")
    tensorflow_chief: bool = Field(
        default=True,
        description="Whether TensorFlow's parameter servers come with a chief, a rank more that directs the workers; "
        "`false` for workers that train by themselves.",
    )
    network: Filled | None = Field(
        default=None,
        description="Interface or subnet between nodes; found when absent. `tcp`, or `tcp:` in front: no InfiniBand.",
    )
    checkpoints: Checkpoints = Field(
        default_factory=Checkpoints, description="How checkpoints are kept. Not in this version: refused."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        if self.min_nodes and self.max_nodes and self.min_nodes > self.max_nodes:
            yield Contradiction(
                ("min_nodes",), f"at least {self.min_nodes} nodes, but `max_nodes` allows {self.max_nodes}"
            )
