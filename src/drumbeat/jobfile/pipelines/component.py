"""A command that pipelines use as a step: its inputs, its outputs and its command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from drumbeat.jobfile.data.inputs_outputs import DeclaredInputs, OutputValue
from drumbeat.jobfile.environments.environment_keys import EnvironmentValue
from drumbeat.jobfile.job.distribution import Distribution
from drumbeat.jobfile.job.resources_and_limits import Resources
from drumbeat.jobfile.reading.expressions import missing
from drumbeat.jobfile.reading.field_types import AsText, Filled, Identifier, Text, Variable, Version, named, pattern
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, model_or_text

ComponentName = Annotated[
    str, pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}", "letters, digits, `_`, `-` and `.`, at most 255")
]
"""A component that is used by its file may have such a name; to be registered, it needs one of `REGISTERED_NAME`."""
REGISTERED_NAME = re.compile(r"[a-z][a-z0-9_]{0,254}")


class ComponentKeys(Model):
    """The keys that every component has."""

    noun: ClassVar[str] = "the component"
    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})

    name: ComponentName | None = Field(default=None, description="Name to register it under.")
    version: Version | None = Field(default=None, description="Version under that name.")
    display_name: Text | None = Field(default=None, max_length=255, description="Name on pages.")
    description: Text | None = Field(default=None, description="Description of its purpose.")
    tags: dict[Text, AsText] = Field(default_factory=dict, description="Free-form labels.")
    is_deterministic: bool = Field(default=True, description="Whether an earlier result may be reused.")
    inputs: DeclaredInputs = Field(default_factory=dict, description="Inputs: data or parameters.")
    outputs: dict[Identifier, OutputValue] = Field(default_factory=dict, description="Outputs.")


class CommandComponent(ComponentKeys):
    """A step that runs a command."""

    type: Annotated[Literal["command"], AnyCase()] = Field(default="command", description="Always `command`.")
    command: Filled = Field(description="Shell command, with `${{inputs.x}}` and `${{outputs.x}}`.")
    code: Filled | None = Field(default=None, description="Folder with the source code.")
    environment: EnvironmentValue | None = Field(default=None, description="Environment to run in.")
    environment_variables: dict[Variable, AsText] = Field(
        default_factory=dict, description="Environment variables of every rank."
    )
    resources: Resources = Field(default_factory=Resources, description="Number and kind of nodes.")
    distribution: Distribution | None = Field(default=None, description="How its processes find each other.")
    additional_includes: list[Filled] = Field(default_factory=list, description="Additional files to include.")

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
