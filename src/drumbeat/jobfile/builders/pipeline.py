"""`@pipeline`: a Python function whose calls of commands and components become the steps of a `PipelineJob`."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, cast

from drumbeat.jobfile.builders.bindings import (
    OPEN,
    Binding,
    Inputs,
    NamedValues,
    Outputs,
    bound,
    open_pipeline,
    port,
)
from drumbeat.jobfile.data.inputs_outputs import Input, Output
from drumbeat.jobfile.pipelines.pipeline_job import PipelineComponent, PipelineJob, PipelineNode
from drumbeat.jobfile.pipelines.step_types import StepKeys
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.jobfile.reading.model import set_keys
from drumbeat.model.errors import SpecError

SETTINGS = ("default_datastore", "default_compute", "continue_on_step_failure", "force_rerun")
HEAD = (
    "name", "display_name", "experiment_name", "description", "tags", "properties", "compute", "identity", "services",
    "drumbeat",
)  # fmt: skip
VERSION = "version"
"""A key of `@pipeline` that means something only where the function is registered as a component."""
COMPONENT_KEYS = "drumbeat_pipeline_keys"
"""The attribute of a `@pipeline` function with the keys that it was given."""
TYPES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
OF_A_WHOLE = ("name", "experiment_name")
"""Keys that mean nothing for a pipeline that is a step: its variable names it, and its jobs are the outer one's."""


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
        self.inputs, self.settings = Inputs(self.inputs), NamedValues(self.settings)
        self.outputs = Outputs(self, {name: given.described or Output() for name, given in self.results.items()})

    @property
    def jobs(self) -> dict[str, Any]:
        """The steps by name, as Azure's SDK calls them."""
        return NamedValues(self.steps)

    def nodes(self) -> dict[str, StepKeys]:
        """The steps as the file has them, with the pipeline's own outputs tied to theirs."""
        names = {id(step): name for name, step in self.steps.items()}
        nodes = {name: cast("StepKeys", step.to_node(names)) for name, step in self.steps.items()}
        for output, given in self.results.items():
            step = names[id(given.owner)]
            tied = {**nodes[step].outputs, given.port_name: f"${{{{parent.outputs.{output}}}}}"}
            nodes[step] = nodes[step].made({**set_keys(nodes[step]), "outputs": tied})
        return nodes

    def to_job(self) -> PipelineJob:
        """The checked pipeline."""
        head = {key: getattr(self, key) for key in HEAD if getattr(self, key)}
        tables = {"jobs": self.nodes(), "inputs": self.inputs, "outputs": dict(self.outputs)}
        return PipelineJob.made({**head, **tables} | ({"settings": self.settings} if self.settings else {}))

    def to_component(self, **keys: Any) -> PipelineComponent:
        """Returns the pipeline as a component, its inputs as declarations. keys: its own, such as `name`."""
        ports = {name: port(value) for name, value in self.inputs.items()}
        return PipelineComponent.made({**keys, "jobs": self.nodes(), "inputs": ports, "outputs": dict(self.outputs)})

    def to_node(self, names: Mapping[int, str]) -> PipelineNode:
        """Returns the pipeline as one step of another one."""
        own = {key: getattr(self, key) for key in HEAD if key not in OF_A_WHOLE and getattr(self, key)}
        for key in own:
            if key not in PipelineNode.model_fields:
                fix = "Give it to the pipeline around it, or to its own steps."
                raise SpecError(f"a pipeline that is a step of another one takes no `{key}`", fix=fix)
        component = self.to_component()
        own |= {"settings": self.settings} if self.settings else {}
        return PipelineNode.made({**own, "component": component, "inputs": bound(self.inputs, component.inputs, names)})


def pipeline(function: Callable[..., Any] | None = None, **keys: Any) -> Any:
    """Makes a function into one that gives a `Pipeline`. `keys` are those of a pipeline file and of its `settings`."""
    for key in keys:
        if key not in (*SETTINGS, *HEAD, VERSION):
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
        refuse_azures_objects(local)
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

    setattr(build, COMPONENT_KEYS, keys)
    return build


def is_pipeline_function(value: object) -> bool:
    """Whether `@pipeline` made it."""
    return hasattr(value, COMPONENT_KEYS)


def pipeline_component(function: Callable[..., Any]) -> PipelineComponent:
    """Returns a `@pipeline` function as a component that can be registered. Raises SpecError for an untyped input."""
    keys: dict[str, Any] = getattr(function, COMPONENT_KEYS)
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    built: Pipeline = function(**{one.name: _declared(one) for one in parameters})
    head = {key: keys[key] for key in ("display_name", "description", "tags", VERSION) if keys.get(key)}
    return built.to_component(name=keys.get("name") or function.__name__, **head)


def _declared(parameter: inspect.Parameter) -> Input:
    """Returns the declaration of an input by the annotation of a parameter, or its default value."""
    default = None if parameter.default is parameter.empty else parameter.default
    if isinstance(parameter.annotation, Input):
        return parameter.annotation
    kind: Any = parameter.annotation if parameter.annotation in TYPES else type(cast("object", default))
    if kind not in TYPES:
        fix = f"Write `{parameter.name}: Input(type='uri_folder')`, or `str`, `int`, `float`, `bool`."
        raise SpecError(f"the input `{parameter.name}` of the pipeline has no type", fix=fix)
    return Input.made({"type": TYPES[kind], "default": default})


def refuse_azures_objects(local: Mapping[str, Any]) -> None:
    """Raises SpecError for a step that is an object of Azure's own package, which would be missing in the pipeline."""
    for name, value in local.items():
        if type(value).__module__.startswith("azure.ai.ml"):
            what = f"`{name}` is an object of Azure's own package, such as a function of mldesigner gives"
            raise SpecError(what, fix="Make the step with drumbeat.ml: command(...) or load_component(...).")


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
