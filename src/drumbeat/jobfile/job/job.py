"""A job: what every kind of job has, and the command job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field

from drumbeat.jobfile.data.inputs_outputs import Input, InputValues, OutputValue
from drumbeat.jobfile.environments.environment_keys import EnvironmentValue
from drumbeat.jobfile.job.distribution import Distribution, RayDistribution, TensorFlowDistribution
from drumbeat.jobfile.job.extensions import Extensions
from drumbeat.jobfile.job.identity import IdentityValue
from drumbeat.jobfile.job.resources_and_limits import CommandJobLimits, ComputeName, QueueSettings, Resources
from drumbeat.jobfile.job.services import ServiceValue
from drumbeat.jobfile.reading.expressions import WORDS, missing
from drumbeat.jobfile.reading.field_types import AsText, Filled, Identifier, Name, Text, Variable
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model

PREPARE = ("drumbeat", "prepare")
"""The key of a shell text that names inputs and outputs, as `command` does."""


class JobKeys(Model):
    """The keys that command, sweep and pipeline jobs share."""

    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})
    read_only: ClassVar[frozenset[str]] = frozenset({"id", "status", "log_files", "creation_context"})

    name: Name | None = Field(
        default=None, description="Name of the job; by default generated from `display_name` or the experiment's name."
    )
    display_name: Text | None = Field(default=None, max_length=255, description="Name in lists and on pages.")
    experiment_name: Name | None = Field(
        default=None,
        description="Experiment that the job belongs to; by default the name of the folder with the job file, or of "
        "the "
        "current folder without a file.",
    )
    description: Text | None = Field(default=None, description="Description of its purpose.")
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free-form labels.")
    properties: dict[str, AsText] = Field(default_factory=dict, description="Labels that can't be changed.")
    compute: ComputeName | None = Field(
        default=None, description="The compute to run on; the default compute when not set."
    )
    identity: IdentityValue | None = Field(
        default=None, description="Identity for reading data. This version accepts only `user_identity`."
    )
    services: dict[Identifier, ServiceValue] = Field(
        default_factory=dict, description="Interactive services beside the ranks, by name."
    )
    inputs: InputValues = Field(default_factory=dict, description="Inputs, by name.")
    outputs: dict[Identifier, OutputValue] = Field(default_factory=dict, description="Outputs, by name.")

    @property
    def absent_inputs(self) -> list[str]:
        """The optional inputs without a value."""
        return [name for name, value in self.inputs.items() if isinstance(value, Input) and value.is_absent]


class CommandJob(JobKeys):
    """A command that runs on one node, or as ranks on several."""

    type: Annotated[Literal["command"], AnyCase()] = Field(default="command", description="`command`; optional.")
    command: Filled = Field(description="Shell command of every rank, with `${{inputs.x}}` and `${{outputs.x}}`.")
    code: Filled | None = Field(default=None, description="Path of the folder with the source code.")
    environment: EnvironmentValue | None = Field(
        default=None,
        description="Environment: a reference or an inline definition; the server's Python interpreter when not set.",
    )
    environment_variables: dict[Variable, AsText] = Field(
        default_factory=dict, description="Environment variables of every rank, unchanged."
    )
    distribution: Distribution | None = Field(default=None, description="How its processes find each other.")
    resources: Resources = Field(default_factory=Resources, description="Number and kind of nodes.")
    limits: CommandJobLimits = Field(default_factory=CommandJobLimits, description="Time limits.")
    queue_settings: QueueSettings = Field(default_factory=QueueSettings, description="Queue settings.")
    parent_job_name: Name | None = Field(default=None, description="The parent of this job.")
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

    @property
    def is_elastic(self) -> bool:
        """Whether its number of nodes may change."""
        return not self.min_nodes == self.node_count == self.max_nodes

    def contradictions(self) -> Iterator[Contradiction]:
        yield from size_contradictions(self)
        yield from elastic_contradictions(self)
        yield from mesh_contradictions(self)
        names = {"inputs": [*self.inputs], "outputs": [*self.outputs], "name": []}
        yield from reference_contradictions(self.command, ("command",), names, self.absent_inputs)
        yield from reference_contradictions(self.drumbeat.prepare or "", PREPARE, names, self.absent_inputs)
        yield from output_contradictions(self)

    @classmethod
    def document_contradictions(cls, document: Mapping[str, Any]) -> Iterator[Contradiction]:
        """What the command refers to and the document lacks, also where other problems keep it from being a job."""
        command, inputs, outputs = document.get("command"), document.get("inputs"), document.get("outputs")
        if not isinstance(command, str) or not all(isinstance(table, dict | None) for table in (inputs, outputs)):
            return
        own = [[*cast("dict[str, object]", table or {})] for table in (inputs, outputs)]
        names = {"inputs": own[0], "outputs": own[1], "name": []}
        yield from reference_contradictions(command, ("command",), names, ())


def reference_contradictions(
    text: str, key: tuple[str, ...], names: Mapping[str, Sequence[str]], absent: Sequence[str]
) -> Iterator[Contradiction]:
    """What a shell text at a key of the job asks for and the job doesn't have. absent: inputs without a value."""
    for problem, near in missing(text, names, absent):
        yield Contradiction(key, problem.what, problem.fix, near)


def output_contradictions(job: JobKeys) -> Iterator[Contradiction]:
    """Expressions in paths of outputs that have no value."""
    names = {**dict.fromkeys(WORDS, ()), "inputs": [*job.inputs]}
    for name, output in job.outputs.items():
        for problem, near in missing(output.path or "", names, job.absent_inputs):
            yield Contradiction(("outputs", name, "path"), problem.what, problem.fix, near)


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


def elastic_contradictions(job: CommandJob) -> Iterator[Contradiction]:
    """Yields what a changing number of nodes says against the rest of the job."""
    distribution = job.distribution
    if not (job.is_elastic and isinstance(distribution, TensorFlowDistribution)):
        return
    key = "parameter_server_count" if distribution.parameter_server_count else "worker_count"
    if distribution.parameter_server_count or distribution.worker_count:
        count = getattr(distribution, key)
        what = f"{count} tasks can't follow the number of nodes, and the job may run on {_range(job)} nodes"
        yield Contradiction(("distribution", key), what, "Leave it out: each node then runs one worker.")


def _range(job: CommandJob) -> str:
    return f"{job.min_nodes} to {job.max_nodes}"


def mesh_contradictions(job: CommandJob) -> Iterator[Contradiction]:
    """Yields what the mesh says against the ranks of the job."""
    mesh, key = job.drumbeat.mesh, ("drumbeat", "mesh")
    if not mesh:
        return
    if isinstance(job.distribution, TensorFlowDistribution | RayDistribution):
        kind = job.distribution.type
        fix = "Leave it out, or take `distribution: {type: pytorch}`."
        yield Contradiction(key, f"a mesh goes with ranks of type pytorch or mpi, and the job's are {kind}", fix)
        return
    ranks, product = job.world_size, math.prod(mesh.values())
    if product != ranks:
        sizes = " × ".join(f"{name} {size}" for name, size in mesh.items())
        yield Contradiction(
            key,
            f"{sizes} is a mesh of {product:,} {'rank' if product == 1 else 'ranks'}, and the job starts {ranks:,}",
            "Make the product of the sizes equal `resources.instance_count` × `process_count_per_instance`.",
        )
    if job.is_elastic:
        what = f"a mesh has a fixed number of ranks, and the job may run on {_range(job)} nodes"
        yield Contradiction(key, what, "Leave the mesh out, or `min_nodes` and `max_nodes`.")
