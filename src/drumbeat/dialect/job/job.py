"""A job: what every kind of job has, and the command job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from drumbeat.dialect.data.inputs_outputs import Input, InputValue, OutputValue
from drumbeat.dialect.environments.environment import EnvironmentValue
from drumbeat.dialect.job.distribution import Distribution, TensorFlowDistribution
from drumbeat.dialect.job.extensions import Extensions
from drumbeat.dialect.job.resources import (  # fmt: skip
    CommandJobLimits,
    ComputeName,
    IdentityValue,
    QueueSettings,
    Resources,
    ServiceValue,
)
from drumbeat.dialect.reading.expressions import missing
from drumbeat.dialect.reading.shape import AnyCase, Contradiction, Model
from drumbeat.dialect.reading.values import AsText, Filled, Identifier, Name, Text, Variable


class JobHead(Model):
    """The keys that command, sweep and pipeline jobs share."""

    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})
    read_only: ClassVar[frozenset[str]] = frozenset({"id", "status", "log_files", "creation_context"})

    name: Name | None = Field(
        default=None, description="The job's own name; made up when absent, from `display_name` or the experiment's."
    )
    display_name: Text | None = Field(default=None, max_length=255, description="What lists and pages call it.")
    experiment_name: Name | None = Field(
        default=None,
        description="The experiment it belongs to. When absent: the folder of the job file, whether `drumbeat run` or "
        "Python is given it; without a file, the current folder.",
    )
    description: Text | None = Field(default=None, description="What it is for.")
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free labels.")
    properties: dict[str, AsText] = Field(default_factory=dict, description="Labels that stay as they are.")
    compute: ComputeName | None = Field(default=None, description="Where it runs; the default compute when absent.")
    identity: IdentityValue | None = Field(
        default=None, description="As whom it reads data. In this version nothing but `user_identity`."
    )
    services: dict[Identifier, ServiceValue] = Field(
        default_factory=dict, description="Interactive services, by name. Not in this version: refused."
    )
    inputs: dict[Identifier, InputValue] = Field(default_factory=dict, description="What goes in, by name.")
    outputs: dict[Identifier, OutputValue] = Field(default_factory=dict, description="What comes out, by name.")


class CommandJob(JobHead):
    """A command, run on one node or as ranks on many."""

    type: Annotated[Literal["command"], AnyCase()] = Field(default="command", description="`command`; may be absent.")
    command: Filled = Field(description="The shell line of every rank, with `${{inputs.x}}` and `${{outputs.x}}`.")
    code: Filled | None = Field(default=None, description="The folder with the sources: its path.")
    environment: EnvironmentValue | None = Field(
        default=None,
        description="What it runs in: a reference, or one written out; the server's own interpreter when absent.",
    )
    environment_variables: dict[Variable, AsText] = Field(
        default_factory=dict, description="Variables of every rank, as written."
    )
    distribution: Distribution | None = Field(default=None, description="How its processes find each other.")
    resources: Resources = Field(default_factory=Resources, description="How many nodes, and of what kind.")
    limits: CommandJobLimits = Field(default_factory=CommandJobLimits, description="When it is ended.")
    queue_settings: QueueSettings = Field(default_factory=QueueSettings, description="How it waits.")
    parent_job_name: Name | None = Field(default=None, description="The job that this one belongs to.")
    drumbeat: Extensions = Field(default_factory=Extensions, description="What drumbeat adds to the dialect.")

    @property
    def node_count(self) -> int:
        """Nodes of the job."""
        return self.resources.instance_count

    @property
    def processes_per_node(self) -> int:
        """Ranks that one node starts; 1 where the distribution doesn't count them per node."""
        return getattr(self.distribution, "process_count_per_instance", 1)

    @property
    def world_size(self) -> int:
        """Ranks of the whole job; for TensorFlow its workers and parameter servers, and their chief."""
        if isinstance(self.distribution, TensorFlowDistribution):
            return self.worker_count + self.distribution.parameter_server_count + self.has_chief
        return self.node_count * self.processes_per_node

    @property
    def worker_count(self) -> int:
        """TensorFlow's workers; one per node unless the job says."""
        return getattr(self.distribution, "worker_count", None) or self.node_count

    @property
    def has_chief(self) -> bool:
        """Whether TensorFlow's parameter servers and workers do what a chief tells them."""
        return self.drumbeat.tensorflow_chief and self.has_parameter_servers

    @property
    def has_parameter_servers(self) -> bool:
        """Whether some of its ranks keep TensorFlow's variables for the others."""
        return getattr(self.distribution, "parameter_server_count", 0) > 0

    @property
    def min_nodes(self) -> int:
        """Fewest nodes that the job goes on with."""
        return self.drumbeat.min_nodes or self.node_count

    @property
    def max_nodes(self) -> int:
        """Most nodes that the job grows to."""
        return self.drumbeat.max_nodes or self.resources.max_instance_count or self.node_count

    def contradictions(self) -> Iterator[Contradiction]:
        yield from size_contradictions(self)
        absent = [name for name, value in self.inputs.items() if isinstance(value, Input) and value.is_absent]
        yield from reference_contradictions(self.command, [*self.inputs], [*self.outputs], absent)
        for name, output in self.outputs.items():
            for problem, near in missing(output.path or "", {"name": (), "inputs": [*self.inputs]}, absent):
                yield Contradiction(("outputs", name, "path"), problem.what, problem.fix, near)


def reference_contradictions(
    command: str, inputs: Sequence[str], outputs: Sequence[str], absent: Sequence[str]
) -> Iterator[Contradiction]:
    """What the command asks for and the job doesn't have."""
    for problem, near in missing(command, {"inputs": inputs, "outputs": outputs, "name": ()}, absent):
        yield Contradiction(("command",), problem.what, problem.fix, near)


def size_contradictions(job: CommandJob) -> Iterator[Contradiction]:
    """What the node counts say against each other."""
    nodes, extra = job.node_count, job.drumbeat
    if extra.min_nodes and extra.min_nodes > nodes:
        yield Contradiction(
            ("drumbeat", "min_nodes"), f"at least {extra.min_nodes} nodes, but `resources.instance_count` is {nodes}"
        )
    if extra.max_nodes and extra.max_nodes < nodes:
        yield Contradiction(
            ("drumbeat", "max_nodes"), f"at most {extra.max_nodes} nodes, but `resources.instance_count` is {nodes}"
        )
    if isinstance(job.distribution, TensorFlowDistribution) and job.world_size < nodes:
        tasks = "chief, workers" if job.has_chief else "workers"
        yield Contradiction(
            ("distribution", "worker_count"),
            f"{job.world_size} {tasks} and parameter servers can't fill {nodes} nodes",
            "Lower `resources.instance_count`, or raise `worker_count`.",
        )
    if "tensorflow_chief" in extra.model_fields_set and not job.has_parameter_servers:
        yield Contradiction(
            ("drumbeat", "tensorflow_chief"),
            "a chief goes with parameter servers, and the job has none",
            "Leave it out; worker 0 leads workers that are alone.",
        )
