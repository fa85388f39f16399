"""Components in Python: what `load_component` gives and `CommandComponent(...)` makes is called with its inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drumbeat.jobfile.builders.bindings import (
    OPEN,
    Inputs,
    Outputs,
    as_table,
    bound,
    port,
    step_value,
)
from drumbeat.jobfile.builders.sweep import OF_THE_TRIAL, Sweepable
from drumbeat.jobfile.pipelines.absolute_paths import with_absolute_paths
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.component_file import Component, component_from, load_component_text
from drumbeat.jobfile.pipelines.component_trials import with_component
from drumbeat.jobfile.pipelines.parallel import ParallelComponent
from drumbeat.jobfile.pipelines.pipeline_job import PipelineComponent, PipelineNode
from drumbeat.jobfile.pipelines.step_types import CommandNode, ParallelNode
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.jobfile.reading.loader import read_text
from drumbeat.jobfile.reading.model import set_keys
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model.errors import SpecError

OF_A_STEP = (
    "display_name", "description", "tags", "properties", "compute", "resources", "limits", "distribution",
    "environment_variables", "environment", "identity", "queue_settings", "services", "drumbeat", "settings",
)  # fmt: skip
"""The keys of a step that uses a component; one of a pipeline has `settings`, and only some of the others."""


@dataclass(eq=False, slots=True)
class ComponentStep(Sweepable):
    """One use of a component as a step; `compute`, `resources`, … may be set, and `sweep(...)` makes it a sweep."""

    component: Component
    inputs: dict[str, Any]
    name: str | None = None
    """The step's name where no variable names it."""
    reference: str = ""
    """What names the component, where it is registered and only its inputs and outputs are known here."""
    compute: Any = None
    """A name, or an input of the pipeline."""
    resources: Any = None
    limits: Any = None
    distribution: Any = None
    environment_variables: dict[str, Any] = field(default_factory=dict[str, Any])
    environment: Any = None
    display_name: str | None = None
    description: str | None = None
    tags: dict[str, Any] = field(default_factory=dict[str, Any])
    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    identity: Any = None
    queue_settings: Any = None
    services: dict[str, Any] = field(default_factory=dict[str, Any])
    drumbeat: Any = None
    settings: Any = None
    outputs: Outputs = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = Inputs(self.inputs)
        self.outputs = Outputs(self, self.component.outputs)
        self.name = self.name or self.component.name

    def set_resources(self, **resources: Any) -> None:
        """Changes `instance_count`, `instance_type`, `shm_size`, … and keeps the others."""
        self.resources = {**as_table(self.resources), **resources}

    def set_limits(self, *, timeout: float | None = None) -> None:
        """Seconds after which the step is ended."""
        self.limits = {**as_table(self.limits), "timeout": timeout}

    def set_queue_settings(self, *, job_tier: str | None = None, priority: str | None = None) -> None:
        """Settings of the step in the queue."""
        self.queue_settings = {"job_tier": job_tier, "priority": priority}

    def to_node(self, names: Mapping[int, str]) -> CommandNode | ParallelNode | PipelineNode:
        """The step as the file has it."""
        own = {key: step_value(getattr(self, key), names) for key in OF_A_STEP if getattr(self, key)}
        inputs = bound(self.inputs, self.component.inputs, names)
        outputs = {name: value for name, value in self.outputs.items() if value != self.component.outputs.get(name)}
        own |= {"outputs": outputs} if outputs else {}
        return _node_class(self.component).made(
            {**own, "component": self.reference or self.component, "inputs": inputs}
        )

    # --- as the trial of a sweep --------------------------------------------------------------------------------
    def document(self) -> dict[str, Any]:
        """The keys that were set, which a sweep takes over."""
        return {key: getattr(self, key) for key in OF_A_STEP if getattr(self, key)}

    def ports(self) -> dict[str, Any]:
        """Each input as the component declares it."""
        return dict(self.component.inputs)

    def to_component(self) -> CommandComponent:
        """The component with what was set for this use of it. Raises SpecError where it isn't a command."""
        if isinstance(self.component, PipelineComponent):
            raise SpecError("a pipeline component can't be swept", fix="Sweep the component of one of its steps.")
        if isinstance(self.component, ParallelComponent):
            raise SpecError("a parallel component can't be swept", fix="Sweep a component of type command.")
        own = {key: value for key, value in self.document().items() if key in OF_THE_TRIAL}
        if "environment_variables" in own:
            own["environment_variables"] = self.component.environment_variables | own["environment_variables"]
        return CommandComponent.made(set_keys(self.component) | own)

    def as_trial(self, document: Mapping[str, Any], drawn: Collection[str]) -> dict[str, Any]:
        """The document of a sweep whose trial is the component."""
        component = self.to_component()
        more = {name: port(document["search_space"][name]) for name in drawn if name not in component.inputs}
        return with_component(document, component.model_copy(update={"inputs": component.inputs | more}))


class ComponentFunction:
    """A component as a function of its inputs that gives a step. Its keys are attributes and may be set.

    reference: what names it where it is registered, `azureml:NAME:VERSION`; its document then serves its ports only.
    """

    def __init__(self, component: Component, reference: str = "") -> None:
        object.__setattr__(self, "component", component)
        object.__setattr__(self, "reference", reference)

    component: Component
    reference: str

    def __call__(self, **inputs: Any) -> ComponentStep:
        """Returns a step; in a `@pipeline` function it is one of that pipeline's. Optional inputs may be None."""
        for name in inputs:
            if name not in self.component.inputs:
                raise SpecError(f"the component has no input `{name}`", fix=nearest(name, self.component.inputs))
        given = {name: value for name, value in inputs.items() if value is not None}
        step = ComponentStep(self.component, given, reference=self.reference)
        steps = OPEN.get()
        if steps is not None:
            steps.append(step)
        return step

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        return getattr(self.component, key)

    def __setattr__(self, key: str, value: Any) -> None:
        object.__setattr__(self, "component", type(self.component).made({**set_keys(self.component), key: value}))
        object.__setattr__(self, "reference", "")


def _node_class(component: Component) -> type[CommandNode | ParallelNode | PipelineNode]:
    if isinstance(component, PipelineComponent):
        return PipelineNode
    return ParallelNode if isinstance(component, ParallelComponent) else CommandNode


def load_component(source: str | Path) -> ComponentFunction:
    """The component in a YAML file, as a function of its inputs that gives a step.

    The paths in it count from its file.
    """
    loaded = load_component_text(read_text(Path(source)), str(source))
    document = with_absolute_paths(to_dict(loaded), Path(source).absolute().parent)
    return ComponentFunction(component_from(document, str(source)))
