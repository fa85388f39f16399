"""A pipeline: steps whose inputs are other steps' outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, cast

from pydantic import Field

from drumbeat.jobfile.job.extensions import Extensions
from drumbeat.jobfile.job.job import JobKeys
from drumbeat.jobfile.job.resources_and_limits import ComputeName
from drumbeat.jobfile.pipelines.component import ComponentKeys
from drumbeat.jobfile.pipelines.graph import step_contradictions
from drumbeat.jobfile.pipelines.step_types import (
    CommandNode,
    NodeName,
    OtherNode,
    ParallelNode,
    StepKeys,
    SweepNode,
    node_validator,
)
from drumbeat.jobfile.reading.expressions import WORDS, missing
from drumbeat.jobfile.reading.field_types import Filled
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, model_or_text


class PipelineSettings(Model):
    """Settings of the steps."""

    default_datastore: Filled | None = Field(default=None, description="Default datastore of outputs.")
    default_compute: ComputeName | None = Field(default=None, description="Default compute of steps.")
    continue_on_step_failure: bool = Field(
        default=False, description="Whether other branches continue after a failure."
    )
    force_rerun: bool = Field(
        default=False, description="Whether to run steps again whose earlier results could be reused."
    )


class PipelineComponent(ComponentKeys):
    """A pipeline that is a step of another one."""

    type: Annotated[Literal["pipeline"], AnyCase()] = Field(default="pipeline", description="Always `pipeline`.")
    jobs: dict[NodeName, Node] = Field(min_length=1, description="The steps, by name.")

    def contradictions(self) -> Iterator[Contradiction]:
        yield from step_contradictions(self.jobs, [*self.inputs], [*self.outputs])


class PipelineNode(StepKeys):
    """A whole pipeline as one step."""

    type: Annotated[Literal["pipeline"], AnyCase()] = Field(default="pipeline", description="Always `pipeline`.")
    component: Annotated[
        PipelineComponent | Filled, model_or_text(lambda: PipelineComponent, "a component's file or reference")
    ] = Field(description="The pipeline: a file, a reference, or an inline definition.")
    settings: PipelineSettings = Field(default_factory=PipelineSettings, description="Settings of its steps.")


Node = Annotated[
    CommandNode | SweepNode | ParallelNode | PipelineNode | OtherNode,
    node_validator(lambda: (CommandNode, SweepNode, ParallelNode, PipelineNode), OtherNode),
]


class PipelineJob(JobKeys):
    """Steps, each a job, whose inputs may be other steps' outputs."""

    type: Annotated[Literal["pipeline"], AnyCase()] = Field(default="pipeline", description="Always `pipeline`.")
    jobs: dict[NodeName, Node] = Field(default_factory=dict, description="The steps, by name.")
    component: Annotated[
        PipelineComponent | Filled | None, model_or_text(lambda: PipelineComponent, "a component's file or reference")
    ] = Field(default=None, description="A pipeline to run unchanged, instead of `jobs`.")
    settings: PipelineSettings = Field(default_factory=PipelineSettings, description="Settings of the steps.")
    drumbeat: Extensions = Field(default_factory=Extensions, description="What drumbeat adds to the dialect.")

    def contradictions(self) -> Iterator[Contradiction]:
        if self.jobs and self.component is not None:
            yield Contradiction(("component",), "both `jobs` and `component`", "Keep one of them.")
        if not self.jobs and self.component is None:
            yield Contradiction((), "the pipeline has no steps", "Write them under `jobs:`.")
        yield from step_contradictions(cast("dict[str, StepKeys]", self.jobs), [*self.inputs], [*self.outputs])
        names_by_context = {**dict.fromkeys(WORDS, ()), "inputs": [*self.inputs], "parent.inputs": [*self.inputs]}
        for name, output in self.outputs.items():
            for problem, near in missing(output.path or "", names_by_context):
                yield Contradiction(("outputs", name, "path"), problem.what, problem.fix, near)


for model in (PipelineComponent, PipelineNode, PipelineJob):
    model.model_rebuild()
