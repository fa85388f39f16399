"""The `drumbeat:` table: what drumbeat adds to the dialect.

The keys of retries, grace and silence are in `timeouts_and_retries.py`. Where those of this file act: `warm_start` in
launchers/warm_start_fit.py; `environment` in core/planning/plan.py; `prepare` in launchers/preparation.py;
`mpi_options` in launchers/mpi.py; `tensorflow_chief` in launchers/tensorflow.py; `network` in
launchers/network_variables.py; `fresh_nodes` in core/lifecycle/handover.py; `preflight` in node/preflight/preflight.py;
`mesh` in model/mesh.py; `primary_metric` in server/metrics/metrics.py; `system_metrics` in
node/metrics/resources.py; `max_log_mib` in server/home_folder/log_ring.py; `notify` and `notify_on` in
server/notices/due_notices.py; `stop_when`, `notify_when` and `idle_after` in core/lifecycle/early_end.py;
`checkpoints` in train/checkpoint_folder.py (`keep`) and node/torn_files/copies.py (`copies_gib`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from drumbeat.jobfile.job.conditions import ConditionKeys, condition_contradictions
from drumbeat.jobfile.job.timeouts_and_retries import RecoverySettings
from drumbeat.jobfile.reading.field_types import Count, Filled, Tally, Text, pattern
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model
from drumbeat.model.primary_metrics import Goal, parse_goal

Dimension = Annotated[
    str,
    pattern(r"[a-z][a-z0-9_]{0,30}", "a dimension is lower-case letters, digits and `_`, at most 31, a letter first"),
]


class CheckpointSettings(Model):
    """The files in `$DRUMBEAT_CHECKPOINT_DIR`."""

    keep: Count = Field(
        default=3, description="Number of checkpoints of `drumbeat.train.Checkpoints` to keep, the newest."
    )
    copies_gib: Tally = Field(
        default=64,
        description="The most that copies of files which a script saves by itself may take, in GiB. From a copy, a "
        "file is put back whose saving was cut off. `0` makes none.",
    )


class PrimaryMetricSettings(Model):
    """The metric by which the job is judged, in lists and beside other jobs."""

    name: Filled = Field(description="Name of the metric, exactly as the script logs it.")
    goal: Annotated[Literal["maximize", "minimize", "max", "min"], AnyCase()] | None = Field(
        default=None,
        description="Whether larger or smaller values are better. Without it the name decides: an `accuracy` is better "
        "high, a `loss` low.",
    )


class Extensions(ConditionKeys, RecoverySettings):
    """What drumbeat adds.

    Which of these a user set is in `model_fields_set`.
    """

    warm_start: bool = Field(
        default=True,
        description="Whether ranks that start again begin in warm workers, which have imported torch before.",
    )
    environment: Annotated[Literal["job", "current"], AnyCase()] = Field(
        default="job", description="`job` uses the job's environment, `current` the server's Python interpreter."
    )
    prepare: Filled | None = Field(
        default=None,
        description="Shell script that each node runs before its ranks start, with the expressions of `command`; if it "
        "fails, the job fails. When the job is canceled, the script has 2 s to end.",
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
    preflight: bool | None = Field(
        default=None,
        description="Whether the nodes check their links, clocks, disks and devices before the ranks start, in at most "
        "5 s. By default they do where a job has several nodes that are machines of their "
        "own, which is so on every compute but `local`.",
    )
    fresh_nodes: bool = Field(
        default=False,
        description="Whether the job runs on nodes of its own. By default the next trial, step or equal job of the "
        "same user takes over the nodes of one that has ended, with its agents and supervisors; its folders, variables "
        "and secrets are its own in any case.",
    )
    mesh: dict[Dimension, Count] = Field(
        default_factory=dict,
        description="Sizes of the dimensions in which ranks divide a model, outermost first, like `{pp: 2, dp: 2}`. "
        "Their product is the number of ranks. Each rank gets `DRUMBEAT_MESH` and its coordinates.",
    )
    system_metrics: bool = Field(
        default=True,
        description="Whether each node logs the use of CPU, memory, disk, network and GPUs by itself and its ranks, "
        "every 5 s, as metrics named `system/…`.",
    )
    max_log_mib: Annotated[int, Field(ge=0, le=1 << 20)] = Field(
        default=0,
        description="MiB of the job's logs that are kept, for jobs that run for months: beyond it, the oldest are "
        "dropped, and a line says so. 0 keeps all.",
    )
    primary_metric: PrimaryMetricSettings | None = Field(
        default=None,
        description="The metric that counts. When not set, the script may name it by `drumbeat.primary`; else it is "
        "guessed: the accuracy on held-out data, then the loss on these, then the loss.",
    )
    notify: list[Filled] = Field(
        default_factory=list,
        description="Who is told when the job ends: names of the server's notice targets (`drumbeat notice list`), and "
        "addresses of mailboxes, which get mail by the server's mail target.",
    )
    notify_on: list[Annotated[Literal["completed", "failed", "canceled"], AnyCase()]] = Field(
        default_factory=lambda: list[Literal["completed", "failed", "canceled"]](("completed", "failed", "canceled")),
        description="Ends of the job that are reported to `notify`.",
    )
    checkpoints: CheckpointSettings = Field(
        default_factory=CheckpointSettings, description="What is kept of the files in `$DRUMBEAT_CHECKPOINT_DIR`."
    )

    @property
    def primary_goal(self) -> tuple[str, Goal | None]:
        """The name of the metric that counts, "" = none is named, and its goal where the job says it."""
        one = self.primary_metric
        return (one.name, parse_goal(one.goal) if one.goal else None) if one else ("", None)

    def contradictions(self) -> Iterator[Contradiction]:
        yield from super().contradictions()
        yield from condition_contradictions(self, self.primary_goal, has_system_metrics=self.system_metrics)
