"""The `drumbeat:` table: what drumbeat adds to the dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from drumbeat.dialect.reading.shape import AnyCase, Contradiction, Model
from drumbeat.dialect.reading.values import Count, Filled, Tally, Text, Wait


class Checkpoints(Model):
    """Retention of checkpoints."""

    keep: Count = Field(
        default=3, description="Number of checkpoints to keep. Refused in this version, like the whole table."
    )


class Extensions(Model):
    """What drumbeat adds.

    Which of these a person set is in `model_fields_set`.
    """

    max_retries: Tally = Field(
        default=3,
        description="Maximum number of restarts after failures of the job; preemption and lost nodes don't count.",
    )
    grace_s: Wait = Field(default=30.0, description="Seconds between SIGTERM and SIGKILL.")
    lost_after_s: Wait = Field(default=600.0, description="Seconds to wait for a node whose state is unknown.")
    min_nodes: Count | None = Field(
        default=None,
        description="Minimum number of nodes to continue with; `instance_count` when not set, and no other value in "
        "this version.",
    )
    max_nodes: Count | None = Field(
        default=None,
        description="Maximum number of nodes; `instance_count` when not set, and no other value in this version.",
    )
    warm_start: bool = Field(
        default=True,
        description="Whether ranks start in prepared interpreters. Refused in this version, except `false`.",
    )
    hang_after_s: Wait = Field(
        default=600.0,
        description="Seconds of silence before drumbeat looks for a hang; 0 means never. Refused in this version, "
        "except 0.",
    )
    environment: Annotated[Literal["job", "current"], AnyCase()] = Field(
        default="job", description="`job` uses the job's environment, `current` the server's Python interpreter."
    )
    prepare: Filled | None = Field(
        default=None,
        description="Shell script that each node runs before its ranks start; if it fails, the job fails. When the "
        "job is "
        "canceled, the script has 2 s to end.",
    )
    mpi_options: list[Text] = Field(default_factory=list, description="Arguments added to the `mpirun` command line.")
    tensorflow_chief: bool = Field(
        default=True,
        description="Whether a TensorFlow job with parameter servers has a chief, an additional rank that directs the "
        "workers; `false` for workers that train independently.",
    )
    network: Filled | None = Field(
        default=None,
        description="Network interface or subnet between nodes; detected when not set. `tcp`, or the prefix `tcp:`, "
        "disables InfiniBand.",
    )
    checkpoints: Checkpoints = Field(
        default_factory=Checkpoints, description="Retention of checkpoints. Refused in this version."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        if self.min_nodes and self.max_nodes and self.min_nodes > self.max_nodes:
            yield Contradiction(
                ("min_nodes",), f"at least {self.min_nodes} nodes, but `max_nodes` allows {self.max_nodes}"
            )
