"""The kinds of step that a pipeline may have. Which of them run is decided in `core/pipelines/expansion.py`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo

from drumbeat.jobfile.data.inputs_outputs import Input, InputValues, Output
from drumbeat.jobfile.environments.environment_keys import EnvironmentValue
from drumbeat.jobfile.job.distribution import Distribution
from drumbeat.jobfile.job.extensions import Extensions
from drumbeat.jobfile.job.identity import IdentityValue
from drumbeat.jobfile.job.job import PREPARE, reference_contradictions
from drumbeat.jobfile.job.resources_and_limits import CommandJobLimits, ComputeName, QueueSettings, Resources
from drumbeat.jobfile.job.services import ServiceValue
from drumbeat.jobfile.pipelines.component import CommandComponent, ComponentValue
from drumbeat.jobfile.pipelines.graph import has_artifacts
from drumbeat.jobfile.pipelines.parallel import (
    ParallelComponent,
    ParallelComponentValue,
    ParallelKeys,
    parallel_contradictions,
    size_contradictions,
)
from drumbeat.jobfile.reading.error_messages import either, shown
from drumbeat.jobfile.reading.field_types import (
    AsText,
    Filled,
    Identifier,
    Json,
    Text,
    Variable,
    complaint,
    pattern,
)
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, chosen, model_or_text
from drumbeat.jobfile.sweeping.early_termination import PolicyValue, SweepExtensions, early_end_contradictions
from drumbeat.jobfile.sweeping.parameter_names import sampling_contradictions, space_contradictions
from drumbeat.jobfile.sweeping.search_space import SearchValue
from drumbeat.jobfile.sweeping.sweep import Objective, SamplingValue, SweepJobLimits

NodeName = Annotated[
    str, pattern(r"[a-z_][a-z0-9_]{0,254}", "lower-case letters, digits and `_`, no digit first, at most 255")
]


def _output(value: object) -> object:
    return {} if value is None else value


NodeOutput = Annotated[
    Output | Filled, model_or_text(lambda: Output, "`${{parent.outputs.x}}`"), BeforeValidator(_output)
]


class StepKeys(Model):
    """The keys that every step has."""

    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})

    name: NodeName | None = Field(default=None, description="Name of the step.")
    display_name: Text | None = Field(default=None, max_length=255, description="Name on pages.")
    description: Text | None = Field(default=None, description="Description of its purpose.")
    comment: Text | None = Field(default=None, description="A note for readers.")
    tags: dict[Text, AsText] = Field(default_factory=dict, description="Free-form labels.")
    properties: dict[Text, AsText] = Field(default_factory=dict, description="Labels that can't be changed.")
    inputs: InputValues = Field(
        default_factory=dict, description="Inputs: a value, data, or `${{parent.jobs.s.outputs.y}}`."
    )
    outputs: dict[Identifier, NodeOutput] = Field(
        default_factory=dict, description="Outputs; `${{parent.outputs.x}}` exposes one as the pipeline's own."
    )
    compute: ComputeName | None = Field(default=None, description="The compute to run on.")


class RunNode(StepKeys):
    """The keys of a step that starts processes itself."""

    resources: Resources = Field(default_factory=Resources, description="Number and kind of nodes.")
    environment_variables: dict[Variable, AsText] = Field(
        default_factory=dict, description="Environment variables of every rank."
    )
    identity: IdentityValue | None = Field(default=None, description="Identity for reading data.")
    queue_settings: QueueSettings = Field(default_factory=QueueSettings, description="Queue settings.")


class CommandNode(RunNode):
    """A command as a step: a component, or a command."""

    type: Annotated[Literal["command"], AnyCase()] = Field(default="command", description="`command`; optional.")
    component: ComponentValue | None = Field(
        default=None, description="Component: a file, a reference, or an inline definition."
    )
    command: Filled | None = Field(default=None, description="Shell command, instead of `component`.")
    code: Filled | None = Field(default=None, description="Folder with the source code, for `command`.")
    environment: EnvironmentValue | None = Field(default=None, description="Environment to run in.")
    distribution: Distribution | None = Field(default=None, description="How its processes find each other.")
    limits: CommandJobLimits = Field(default_factory=CommandJobLimits, description="Time limits.")
    services: dict[Identifier, ServiceValue] = Field(default_factory=dict, description="Interactive services.")
    drumbeat: Extensions = Field(default_factory=Extensions, description="What drumbeat adds to the dialect.")

    def contradictions(self) -> Iterator[Contradiction]:
        if (self.component is None) == (self.command is None):
            many = "neither" if self.command is None else "both"
            yield Contradiction(("component",), f"{many} of `component` and `command`", "Give exactly one of them.")
        if self.command is not None:
            names = {"inputs": [*self.inputs], "outputs": [*self.outputs], "name": []}
            yield from reference_contradictions(self.command, ("command",), names, ())
        if isinstance(self.component, CommandComponent):
            yield from port_contradictions(self, self.component)
        if not isinstance(self.component, str):
            ports = self.component or self
            names = {"inputs": [*ports.inputs], "outputs": [*ports.outputs], "name": []}
            yield from reference_contradictions(self.drumbeat.prepare or "", PREPARE, names, ())


class SweepNode(RunNode):
    """A sweep as a step."""

    type: Annotated[Literal["sweep"], AnyCase()] = Field(default="sweep", description="Always `sweep`.")
    trial: ComponentValue = Field(description="Component of each trial: a file, a reference, or an inline definition.")
    sampling_algorithm: SamplingValue = Field(description="Sampling algorithm.")
    search_space: dict[Identifier, SearchValue] = Field(
        min_length=1, description="Search space of each input, by name."
    )
    objective: Objective = Field(description="Metric that ranks the trials.")
    early_termination: PolicyValue | None = Field(default=None, description="Policy that ends unpromising trials.")
    limits: SweepJobLimits = Field(default_factory=SweepJobLimits, description="Number and duration of trials.")
    services: dict[Identifier, ServiceValue] = Field(
        default_factory=dict, description="Interactive services of each trial."
    )
    drumbeat: SweepExtensions = Field(default_factory=SweepExtensions, description="What drumbeat adds to the dialect.")

    def contradictions(self) -> Iterator[Contradiction]:
        yield from sampling_contradictions(self.sampling_algorithm, self.search_space)
        yield from space_contradictions(self.search_space)
        yield from early_end_contradictions(self.early_termination, self.drumbeat)
        if isinstance(self.trial, CommandComponent):
            yield from port_contradictions(self, self.trial, [*self.search_space])


class ParallelNode(ParallelKeys, RunNode):
    """Runs one script over the mini-batches of its input, in worker processes on one or several nodes."""

    type: Annotated[Literal["parallel"], AnyCase()] = Field(default="parallel", description="Always `parallel`.")
    component: ParallelComponentValue | None = Field(
        default=None, description="Component: a file, a reference, or an inline definition."
    )
    limits: CommandJobLimits = Field(default_factory=CommandJobLimits, description="Time limits.")
    drumbeat: Extensions = Field(default_factory=Extensions, description="What drumbeat adds to the dialect.")

    def contradictions(self) -> Iterator[Contradiction]:
        if (self.component is None) == (self.task is None):
            both = "neither `component` nor `task`" if self.task is None else "both `component` and `task`"
            yield Contradiction((), both, "Give exactly one of them.")
        elif self.task is not None:
            yield from parallel_contradictions(self, self.inputs, [*self.outputs])
        else:
            if self.input_data is not None:
                yield Contradiction(("input_data",), "the component says which input is divided", "Leave it out.")
            yield from size_contradictions(self)
        if isinstance(self.component, ParallelComponent):
            yield from port_contradictions(self, self.component)


class OtherNode(Model):
    """A kind of step that drumbeat recognizes and keeps unchanged, but doesn't run."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Json] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    type: Annotated[
        Literal["automl", "spark", "import", "data_transfer", "do_while", "if_else", "parallel_for"], AnyCase()
    ] = Field(description="`automl`, `spark`, `import`, `data_transfer`, `do_while`, `if_else` or `parallel_for`.")


def node_validator(classes: Callable[[], tuple[type[Model], ...]], other: type[OtherNode]) -> BeforeValidator:
    """Reads a step as what its `type` says; one without is a command."""

    def read(value: object, info: ValidationInfo) -> object:
        if isinstance(value, Model):
            return value
        if not isinstance(value, Mapping):
            raise complaint(f"expected a mapping that describes a step, got {shown(value)}")
        written = cast("Mapping[str, Any]", value)
        models = classes()
        if isinstance(written.get("type"), str) and is_other(written["type"]):
            return other.model_validate(written, context=info.context)
        return chosen(written, models, "a step", None, CommandNode).model_validate(written, context=info.context)

    return BeforeValidator(read)


OTHER_KINDS = ("automl", "spark", "import", "data_transfer", "do_while", "if_else", "parallel_for")


def is_other(kind: str) -> bool:
    """Whether a step of this type is only recognised."""
    return kind.casefold() in OTHER_KINDS


def port_contradictions(
    node: StepKeys, component: CommandComponent | ParallelComponent, drawn: list[str] | None = None
) -> Iterator[Contradiction]:
    """What a step gives to its component that it doesn't take, and what it leaves out.

    An input that isn't one of the component's is dropped when the graph is made, as with Azure, unless one of those
    that need a value has none: then its name is a typing error.
    """
    given = [*node.inputs, *(drawn or [])]
    unfilled = unfilled_ports(component.inputs, given)
    for name in given:
        if name not in component.inputs and (name not in node.inputs or unfilled):
            table = "inputs" if name in node.inputs else "search_space"
            fix = either(name, component.inputs, "It takes")
            yield Contradiction((table, name), f"the component has no input `{name}`", fix)
    for name in node.outputs:
        if name not in component.outputs and not has_artifacts(node, name):
            fix = either(name, component.outputs, "It gives")
            yield Contradiction(("outputs", name), f"the component has no output `{name}`", fix)
    for name in unfilled:
        yield Contradiction(("inputs",), f"the component's input `{name}` has no value", f"Add `{name}:`.")


def unfilled_ports(ports: Mapping[str, Input], given: Collection[str]) -> list[str]:
    """The inputs of a component that need a value and are given none."""
    return [
        name
        for name, port in ports.items()
        if name not in given and not port.optional and port.default is None and port.path is None
    ]
