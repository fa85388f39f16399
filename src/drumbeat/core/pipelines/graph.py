"""A pipeline as a flat graph of steps: nested pipelines are expanded, and every input is bound to what gives it."""

from __future__ import annotations

from dataclasses import dataclass, field

from drumbeat.jobfile.data.inputs_outputs import Input, Output
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.pipeline_job import PipelineJob
from drumbeat.jobfile.pipelines.step_inputs import Scalar
from drumbeat.jobfile.pipelines.step_types import CommandNode, SweepNode


@dataclass(frozen=True)
class StepOutput:
    """An output of another step, or a place in it."""

    step: str
    output: str
    path: str = ""


@dataclass(frozen=True)
class Data:
    """Data that the file names."""

    value: Input
    part: str
    """The step at which it is written; "" = the pipeline itself. There the client says where local data is."""
    name: str
    """The input that it is written as there."""
    is_default: bool = False
    """Whether it is the `path` of the component's own input: the step gives nothing."""


Value = Scalar | Data | StepOutput | None
"""What an input is: a literal, data, another step's output; None = an optional input without a value."""


@dataclass(frozen=True)
class Bound:
    """An input of a step and what gives it. type, mode: of data, "" = as its source has them."""

    value: Value
    type: str = ""
    mode: str = ""


@dataclass(frozen=True)
class Settings:
    """The settings that hold for a step, with those of the pipelines around it."""

    compute: str = ""
    datastore: str = ""
    """Where outputs without a path go; "" = they stay in the job's folder."""
    is_continued: bool = False
    """Whether steps that do not depend on a failed one go on."""
    is_forced: bool = False
    """Whether an earlier result is not reused."""


@dataclass(frozen=True)
class PipelineStep:
    """A step that is a job of its own."""

    path: str
    """Its name, with those of the nested pipelines around it: `outer/inner`."""
    node: CommandNode | SweepNode
    component: CommandComponent
    """What it runs; of a step with a command of its own, made from it."""
    inputs: dict[str, Bound] = field(default_factory=dict[str, Bound])
    outputs: dict[str, Output] = field(default_factory=dict[str, Output])
    settings: Settings = Settings()

    @property
    def after(self) -> tuple[str, ...]:
        """The steps whose outputs it takes, in the order of its inputs."""
        return tuple(dict.fromkeys(one.value.step for one in self.inputs.values() if isinstance(one.value, StepOutput)))


@dataclass(frozen=True)
class Graph:
    """All steps of a pipeline, each after those whose outputs it takes.

    outputs: which output of a step each of the pipeline's own is; those that no step gives are left out.
    notes: sentences on what its steps give to their components.
    """

    job: PipelineJob
    steps: dict[str, PipelineStep]
    outputs: dict[str, StepOutput]
    notes: tuple[str, ...] = ()

    def step(self, path: str) -> PipelineStep:
        """Returns a step. Raises KeyError."""
        return self.steps[path]
