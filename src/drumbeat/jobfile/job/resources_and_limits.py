"""Where and within which limits a job runs: `compute`, `resources`, `queue_settings` and `limits`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from drumbeat.jobfile.reading.error_messages import shown
from drumbeat.jobfile.reading.field_types import Count, Filled, Seconds, Table, TextOrList, complaint, named, pattern
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model

MemorySize = Annotated[
    str, pattern(r"0*[1-9][0-9]{0,15}[bBkKmMgG]", "a number above 0 with `b`, `k`, `m` or `g` behind it, like `2g`")
]


class Resources(Model):
    """Number and kind of nodes."""

    instance_count: Count = Field(default=1, description="Number of nodes.")
    instance_type: Annotated[Filled, named("an instance type", "Write `cpu`, `gpu` or `gpu:N`.")] | None = Field(
        default=None,
        description="`cpu`, `gpu` (one GPU for each rank), `gpu:N` (N GPUs on each node), or an alias of one of these.",
    )
    max_instance_count: Count | None = Field(
        default=None,
        description="Maximum number of nodes of an elastic job: it grows to as many when they are free.",
    )
    shm_size: MemorySize | None = Field(
        default=None,
        description="Shared memory of a container, like `2g`. Ignored by drumbeat: ranks use the machine's shared "
        "memory.",
    )
    docker_args: TextOrList | None = Field(default=None, description="Additional arguments for the container engine.")
    locations: list[Filled] | None = Field(
        default=None, description="Regions that the job may run in. Ignored by drumbeat."
    )
    properties: Table = Field(
        default_factory=dict, description="Settings for the compute in a cloud. Ignored by drumbeat."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        most = self.max_instance_count
        if most is not None and most < self.instance_count:
            yield Contradiction(
                ("max_instance_count",), f"at most {most} nodes, but `instance_count` asks for {self.instance_count}"
            )


JobResourceConfiguration = Resources


class CommandJobLimits(Model):
    """Time limits of a job."""

    timeout: Seconds | None = Field(
        default=None,
        description="Seconds from the first start of the ranks until the job is ended. It then fails with exit code "
        "124 and "
        "isn't retried.",
    )


class QueueSettings(Model):
    """Settings of the job in the queue."""

    job_tier: Annotated[Literal["spot", "basic", "standard", "premium"], AnyCase()] | None = Field(
        default=None, description="Class of service. Ignored by drumbeat."
    )
    priority: Annotated[Literal["low", "medium", "high"], AnyCase()] | None = Field(
        default=None, description="Priority in the queue."
    )


def _compute(value: object) -> object:
    if not isinstance(value, str):
        raise complaint(f"expected the name of a compute, got {shown(value)}", "Write `compute: azureml:name`.")
    return value


ComputeName = Annotated[
    Filled,
    BeforeValidator(_compute),
    named("a compute", "Write the name of one, like `compute: local`; see them: drumbeat compute list"),
]
