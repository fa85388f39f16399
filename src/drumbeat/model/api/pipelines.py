"""Pipelines as the API shows them: their steps, what leads from one to the next, and what was reused."""

from __future__ import annotations

from dataclasses import dataclass, field

from drumbeat.model.states import JobKind, State

IS_REUSED = "azureml.isreused"
REUSED_RUN = "azureml.reusedrunid"


@dataclass(frozen=True)
class StepView:
    """A step of a pipeline."""

    name: str
    """Its name, with those of the nested pipelines around it: `outer/inner`."""
    job: str
    """The name of its job; of a reused step, of the job that it would have been."""
    type: JobKind
    state: State | None
    """The state of its job; null while the job does not exist. A reused step is `completed`."""
    sentence: str
    after: tuple[str, ...] = ()
    """The steps whose outputs it takes."""
    result: str = ""
    """The job that has its outputs: its own, an earlier one, or the best trial of a sweep; empty until it completed."""
    reused: str = ""
    """The earlier job whose result was taken; empty if the step ran."""
    skipped: str = ""
    """Why it is never run; empty if it is, or may be."""
    properties: dict[str, str] = field(default_factory=dict[str, str])
    """`azureml.isreused` and `azureml.reusedrunid` of a reused step."""

    @property
    def status(self) -> str:
        """Its state in one word."""
        if self.reused:
            return "reused"
        if self.skipped:
            return "not run"
        return str(self.state) if self.state else "waiting"


@dataclass(frozen=True)
class EdgeView:
    """One step takes an output of another."""

    source: str
    target: str


@dataclass(frozen=True)
class PipelineOutputView:
    """An output of a pipeline, the step whose output it is, and the job that has it; empty until the step completed."""

    name: str
    step: str
    output: str
    job: str = ""


@dataclass(frozen=True)
class PipelineView:
    """A pipeline and its steps, each after those whose outputs it takes."""

    name: str
    state: State
    sentence: str
    steps: tuple[StepView, ...]
    edges: tuple[EdgeView, ...] = ()
    outputs: tuple[PipelineOutputView, ...] = ()
