"""`@pipeline`: a Python function whose calls of commands and components become the steps of a `PipelineJob`."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, cast

from drumbeat.jobfile.builders.bindings import OPEN, Binding, Outputs, bound, open_pipeline, port
from drumbeat.jobfile.builders.sweep import OF_THE_TRIAL, Sweepable
from drumbeat.jobfile.data.inputs_outputs import Output
from drumbeat.jobfile.pipelines.absolute_paths import with_absolute_paths
from drumbeat.jobfile.pipelines.component import CommandComponent
from drumbeat.jobfile.pipelines.component_file import Component, component_from, load_component_text
from drumbeat.jobfile.pipelines.component_trials import with_component
from drumbeat.jobfile.pipelines.pipeline_job import PipelineComponent, PipelineJob, PipelineNode
from drumbeat.jobfile.pipelines.step_types import CommandNode, StepKeys
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.jobfile.reading.frozen_model import Model
from drumbeat.jobfile.reading.loader import read_text
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model.errors import SpecError

SETTINGS = ("default_datastore", "default_compute", "continue_on_step_failure", "force_rerun")
HEAD = (
    "name", "display_name", "experiment_name", "description", "tags", "properties", "compute", "identity", "services",
    "drumbeat",
)  # fmt: skip
OF_A_WHOLE = ("name", "experiment_name")
"""Keys that mean nothing for a pipeline that is a step: its variable names it, and its jobs are the outer one's."""
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
    compute: str | None = None
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
        self.outputs = Outputs(self, self.component.outputs)

    @property
    def name(self) -> str | None:
        """The step's name where no variable names it."""
        return self.component.name

    def to_node(self, names: Mapping[int, str]) -> CommandNode | PipelineNode:
        """The step as the file has it."""
        own = {key: getattr(self, key) for key in OF_A_STEP if getattr(self, key)}
        inputs = bound(self.inputs, self.component.inputs, names)
        outputs = {name: value for name, value in self.outputs.items() if value != self.component.outputs.get(name)}
        own |= {"outputs": outputs} if outputs else {}
        cls = PipelineNode if isinstance(self.component, PipelineComponent) else CommandNode
        return cls.made({**own, "component": self.component, "inputs": inputs})

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
        own = {key: value for key, value in self.document().items() if key in OF_THE_TRIAL}
        if "environment_variables" in own:
            own["environment_variables"] = self.component.environment_variables | own["environment_variables"]
        return CommandComponent.made(set_keys(self.component) | own)

    def as_trial(self, document: Mapping[str, Any], drawn: Collection[str]) -> dict[str, Any]:
        """The document of a sweep whose trial is the component."""
        component = self.to_component()
        more = {name: port(document["search_space"][name]) for name in drawn if name not in component.inputs}
        return with_component(document, component.model_copy(update={"inputs": component.inputs | more}))


def load_component(source: str | Path) -> Callable[..., ComponentStep]:
    """The component in a YAML file, as a function of its inputs that gives a step.

    The paths in it count from its file.
    """
    loaded = load_component_text(read_text(Path(source)), str(source))
    document = with_absolute_paths(to_dict(loaded), Path(source).absolute().parent)
    component = component_from(document, str(source))

    def use(**inputs: Any) -> ComponentStep:
        for name in inputs:
            if name not in component.inputs:
                raise SpecError(f"the component has no input `{name}`", fix=nearest(name, component.inputs))
        step = ComponentStep(component, inputs)
        steps = OPEN.get()
        if steps is not None:
            steps.append(step)
        return step

    return use


@dataclass(kw_only=True, eq=False, slots=True)
class Pipeline:
    """A draft of a pipeline: `to_job()` checks it. As a step of another pipeline it has `outputs`."""

    steps: dict[str, Any]
    inputs: dict[str, Any]
    results: dict[str, Binding]
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    compute: str | None = None
    name: str | None = None
    display_name: str | None = None
    experiment_name: str | None = None
    description: str | None = None
    tags: dict[str, Any] = field(default_factory=dict[str, Any])
    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    identity: Any = None
    services: dict[str, Any] = field(default_factory=dict[str, Any])
    drumbeat: Any = None
    outputs: Outputs = field(init=False)

    def __post_init__(self) -> None:
        self.outputs = Outputs(self, {name: given.described or Output() for name, given in self.results.items()})

    def nodes(self) -> dict[str, StepKeys]:
        """The steps as the file has them, with the pipeline's own outputs tied to theirs."""
        names = {id(step): name for name, step in self.steps.items()}
        nodes = {name: cast("StepKeys", step.to_node(names)) for name, step in self.steps.items()}
        for output, given in self.results.items():
            step = names[id(given.owner)]
            tied = {**nodes[step].outputs, given.name: f"${{{{parent.outputs.{output}}}}}"}
            nodes[step] = nodes[step].made({**set_keys(nodes[step]), "outputs": tied})
        return nodes

    def to_job(self) -> PipelineJob:
        """The checked pipeline."""
        head = {key: getattr(self, key) for key in HEAD if getattr(self, key)}
        tables = {"jobs": self.nodes(), "inputs": self.inputs, "outputs": dict(self.outputs)}
        return PipelineJob.made({**head, **tables} | ({"settings": self.settings} if self.settings else {}))

    def to_node(self, names: Mapping[int, str]) -> PipelineNode:
        """Returns the pipeline as one step of another one."""
        own = {key: getattr(self, key) for key in HEAD if key not in OF_A_WHOLE and getattr(self, key)}
        for key in own:
            if key not in PipelineNode.model_fields:
                fix = "Give it to the pipeline around it, or to its own steps."
                raise SpecError(f"a pipeline that is a step of another one takes no `{key}`", fix=fix)
        ports = {name: port(value) for name, value in self.inputs.items()}
        component = PipelineComponent.made({"jobs": self.nodes(), "inputs": ports, "outputs": dict(self.outputs)})
        own |= {"settings": self.settings} if self.settings else {}
        return PipelineNode.made({**own, "component": component, "inputs": bound(self.inputs, ports, names)})


def pipeline(function: Callable[..., Any] | None = None, **keys: Any) -> Any:
    """Makes a function into one that gives a `Pipeline`. `keys` are those of a pipeline file and of its `settings`."""
    for key in keys:
        if key not in (*SETTINGS, *HEAD):
            raise SpecError(f"@pipeline takes no `{key}`", fix=nearest(key, (*SETTINGS, *HEAD)))
    if function is None:
        return functools.partial(pipeline, **keys)

    @functools.wraps(function)
    def build(*args: Any, **given: Any) -> Pipeline:
        call = inspect.signature(function).bind(*args, **given)
        call.apply_defaults()
        values: dict[str, Any] = dict(call.arguments)
        # None is the value of an optional input that is given nothing: no input of the pipeline.
        asked = {name: value if value is None else Binding(name, described=value) for name, value in values.items()}
        values = {name: value for name, value in values.items() if value is not None}
        with open_pipeline() as steps:
            results, local = call_and_look(function, asked)
        head = {key: keys[key] for key in HEAD if key in keys}
        head.setdefault("display_name", function.__name__)
        settings = {key: keys[key] for key in SETTINGS if key in keys}
        built = Pipeline(
            steps=named(steps, local), inputs=values, results=checked(results, steps), settings=settings, **head
        )
        around = OPEN.get()
        if around is not None:
            around.append(built)
        return built

    return build


def call_and_look(function: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Returns the function's result, and its local variables at its return: their names are the steps' names."""
    local: dict[str, Any] = {}
    code = inspect.unwrap(function).__code__

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code is code:
            local.update(frame.f_locals)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        return function(**arguments), local
    finally:
        sys.setprofile(before)


def named(steps: list[Any], local: Mapping[str, Any]) -> dict[str, Any]:
    """Each step under its variable's name, or under its own with a number behind it."""
    of_variable = {id(value): name for name, value in reversed([*local.items()])}
    done: dict[str, Any] = {}
    for step in steps:
        wanted = of_variable.get(id(step)) or step.name or "step"
        name = wanted = re.sub(r"[^a-z0-9_]", "_", wanted.lower())
        count = 1
        while name in done:
            name, count = f"{wanted}_{count}", count + 1
        done[name] = step
    return done


def checked(results: Any, steps: list[Any]) -> dict[str, Binding]:
    """What the function returned, if it is a dict of its steps' outputs."""
    if results is None:
        return {}
    if not isinstance(results, Mapping):
        raise SpecError("a @pipeline function returns nothing, or a dict of its steps' outputs")
    table = cast("Mapping[str, Any]", results)
    for name, value in table.items():
        if not isinstance(value, Binding) or not any(value.owner is step for step in steps):
            raise SpecError(f"`{name}` isn't an output of a step", fix="Return `{'model': step.outputs.model}`.")
    return dict(table)


def set_keys(node: Model) -> dict[str, Any]:
    """The keys of a node or a component that were set, as they are."""
    return {key: getattr(node, key) for key in node.model_fields_set}
