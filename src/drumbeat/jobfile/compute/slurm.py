"""A compute of type `slurm`: a cluster to which the server submits jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from drumbeat.jobfile.compute.compute_keys import ScaledCompute
from drumbeat.jobfile.compute.compute_values import Absolute, SbatchOption, TimeLimit, Word
from drumbeat.jobfile.compute.remote_compute import RemoteCompute
from drumbeat.jobfile.reading.field_types import Count, Tally, Wait, Whole
from drumbeat.jobfile.reading.model import AnyCase


class SlurmCompute(RemoteCompute, ScaledCompute):
    """A cluster to which the server submits jobs with sbatch."""

    type: Annotated[Literal["slurm"], AnyCase()] = Field(default="slurm", description="Always `slurm`.")
    folder: Absolute = Field(description="Folder that the server and all nodes see at this path.")
    conf: Absolute | None = Field(
        default=None, description="The cluster's `slurm.conf`; the default of Slurm's commands when not set."
    )
    partition: Word | None = Field(default=None, description="Partition; the cluster's default when absent.")
    account: Word | None = Field(default=None, description="Account that pays.")
    qos: Word | None = Field(default=None, description="Quality of service.")
    constraint: Word | None = Field(default=None, description="Features that the nodes must have.")
    exclude: Word | None = Field(default=None, description="Nodes that aren't used.")
    gres: Word | None = Field(default=None, description="Generic resources of each node, like `gpu:4`.")
    reservation: Word | None = Field(default=None, description="Reservation to run in.")
    time_limit: TimeLimit | None = Field(
        default=None, description="How long Slurm lets a job's nodes be: minutes, or [D-]HH:MM:SS."
    )
    cpus_per_node: Count | None = Field(default=None, description="CPU slots of a node; Slurm's own when absent.")
    gpus_per_node: Annotated[Whole, Field(ge=0, le=1000)] | None = Field(
        default=None, description="GPUs of a node; Slurm's own when absent."
    )
    options: list[SbatchOption] = Field(
        default_factory=list[str], description="More options for sbatch, as it has them: `--mem=64G`."
    )
    min_instances: Tally | None = Field(
        default=None,
        description="Number of machines that you expect to stay on; the cluster's own number is in effect.",
    )
    max_instances: Count | None = Field(
        default=None,
        description="Most nodes that drumbeat's jobs have at a time; further jobs wait in drumbeat. All when not set.",
    )
    idle_time_before_scale_down: Wait | None = Field(
        default=None,
        description="Seconds without a job after which you expect a machine to be switched off; the cluster's own "
        "number is in effect.",
    )
    tier: Annotated[Literal["dedicated", "low_priority"], AnyCase()] | None = Field(
        default=None,
        description="Whether you expect that the cluster may take nodes away for other jobs; its own answer is shown.",
    )

    def sees(self, place: Path) -> bool:
        """What lies on the file system of the folder that all nodes see."""
        try:
            return place.stat().st_dev == Path(self.folder).stat().st_dev
        except OSError:
            return False
