"""A command that pipelines use as a step: what it takes, what it gives, what it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from drumbeat.dialect.data.inputs_outputs import Input, Output
from drumbeat.dialect.environments.environment import EnvironmentValue
from drumbeat.dialect.job.distribution import Distribution
from drumbeat.dialect.job.resources import Resources
from drumbeat.dialect.reading.expressions import missing
from drumbeat.dialect.reading.shape import AnyCase, Contradiction, Model, model_or_text
from drumbeat.dialect.reading.values import AsText, Filled, Identifier, Text, Variable, Version, named, pattern

ComponentName = Annotated[
    str, pattern(r"[a-z][a-z0-9_]{0,254}", "lower-case letters, digits and `_`, a letter first, at most 255")
]


class ComponentHead(Model):
    """The keys that every component has."""

    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})

    name: ComponentName | None = Field(default=None, description="Name to keep it under.")
    version: Version | None = Field(default=None, description="Version under that name.")
    display_name: Text | None = Field(default=None, max_length=255, description="What pages call it.")
    description: Text | None = Field(default=None, description="What it is for.")
    tags: dict[Text, AsText] = Field(default_factory=dict, description="Free labels.")
    is_deterministic: bool = Field(default=True, description="Whether an earlier result may be taken instead.")
    inputs: dict[Identifier, Input] = Field(default_factory=dict, description="What it takes: data or parameters.")
    outputs: dict[Identifier, Output] = Field(default_factory=dict, description="What it gives.")


class CommandComponent(ComponentHead):
    """A step that runs a command."""

    type: Annotated[Literal["command"], AnyCase()] = Field(default="command", description="Always `command`.")
    command: Filled = Field(description="The shell line, with `${{inputs.x}}` and `${{outputs.x}}`.")
    code: Filled | None = Field(default=None, description="The folder with the sources.")
    environment: EnvironmentValue | None = Field(default=None, description="What it runs in.")
    environment_variables: dict[Variable, AsText] = Field(default_factory=dict, description="Variables of every rank.")
    resources: Resources = Field(default_factory=Resources, description="How many nodes, and of what kind.")
    distribution: Distribution | None = Field(default=None, description="How its processes find each other.")
    additional_includes: list[Filled] = Field(default_factory=list, description="More files beside the sources.")

    def contradictions(self) -> Iterator[Contradiction]:
        absent = [name for name, given in self.inputs.items() if given.is_absent]
        names = {"inputs": [*self.inputs], "outputs": [*self.outputs], "name": []}
        for problem, near in missing(self.command, names, absent):
            yield Contradiction(("command",), problem.what, problem.fix, near)


ComponentValue = Annotated[
    CommandComponent | Filled,
    model_or_text(lambda: CommandComponent, "a component's file or `azureml:name:version`"),
    named("a component", "Write a component's file, or `azureml:name:version`.", is_one_word=False),
]
