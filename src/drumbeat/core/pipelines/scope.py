"""The pipeline in which steps are written: the root, or a nested one with what it inherits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from drumbeat.core.pipelines.graph import Bound, Settings, StepOutput
from drumbeat.core.pipelines.outputs import parent_output
from drumbeat.jobfile.data.inputs_outputs import Output
from drumbeat.jobfile.data.paths import DEFAULT_DATASTORE
from drumbeat.jobfile.pipelines.pipeline_job import PipelineComponent, PipelineNode, PipelineSettings
from drumbeat.jobfile.pipelines.step_types import StepKeys
from drumbeat.jobfile.reading.model import Model


@dataclass(frozen=True)
class Scope:
    """The pipeline in which steps are written: the root, or a nested one."""

    prefix: str
    """What the paths of its steps begin with: "" or `outer/`."""
    jobs: Mapping[str, Model]
    inputs: Mapping[str, Bound]
    outputs: Mapping[str, Output]
    """How its outputs are declared, with what the pipelines around it say of them."""
    settings: Settings
    name: str
    """The pipeline job's name, as `${{name}}` in its own section gives it."""
    bound: dict[str, dict[str, Bound]] = field(default_factory=dict[str, dict[str, Bound]], compare=False)
    """The inputs of its steps as far as they are bound, by step: each is bound once, however often others take it."""
    notes: list[str] = field(default_factory=list[str], compare=False)
    """What a user may not expect of the whole pipeline, a sentence each."""

    @property
    def place(self) -> str:
        """The path of the nested pipeline, "" = the whole."""
        return self.prefix.rstrip("/")

    @property
    def words(self) -> dict[str, str]:
        """What its expressions mean in the paths of outputs."""
        values = {key: one.value for key, one in self.inputs.items() if isinstance(one.value, bool | int | float | str)}
        return {
            "default_datastore": self.settings.datastore or DEFAULT_DATASTORE,
            **{f"parent.inputs.{key}": str(value) for key, value in values.items()},
        }


def merged_settings(outer: Settings, own: PipelineSettings) -> Settings:
    """Returns the settings of a pipeline: its own, else those around it."""
    given = own.model_fields_set
    return Settings(
        compute=own.default_compute or outer.compute,
        datastore=(own.default_datastore or outer.datastore).removeprefix("azureml:"),
        is_continued=own.continue_on_step_failure if "continue_on_step_failure" in given else outer.is_continued,
        is_forced=outer.is_forced or own.force_rerun,
    )


def producer(jobs: Mapping[str, Model], prefix: str, output: str, nested: str = "") -> StepOutput | None:
    """Returns the step that gives an output of a pipeline; None where no step does.

    nested: the step of `jobs` that is that pipeline, "" = the pipeline that has `jobs`.
    """
    if nested:
        inside = jobs[nested]
        component = inside.component if isinstance(inside, PipelineNode) else None
        if not isinstance(component, PipelineComponent):
            return None
        return producer(component.jobs, f"{prefix}{nested}/", output)
    for name, node in jobs.items():
        for own, value in getattr(node, "outputs", {}).items() if isinstance(node, StepKeys) else ():
            if parent_output(value) == output:
                if isinstance(node, PipelineNode):
                    return producer(jobs, prefix, own, name)
                return StepOutput(f"{prefix}{name}", own)
    return None
