"""The inputs and outputs of a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, cast, get_args

from pydantic import BeforeValidator, Field, ValidationInfo

from drumbeat.jobfile.data.parameter_values import typed
from drumbeat.jobfile.data.signed_urls import NoSecret
from drumbeat.jobfile.reading.error_messages import shown, words
from drumbeat.jobfile.reading.field_types import (
    Figure,
    Filled,
    Identifier,
    Scalar,
    Text,
    Version,
    complaint,
    literal,
    named,
)
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model

DataType = Literal["uri_file", "uri_folder", "mltable", "custom_model", "mlflow_model", "triton_model"]
ParameterType = Literal["string", "number", "integer", "boolean"]
InputType = Literal[
    "uri_file", "uri_folder", "mltable", "custom_model", "mlflow_model", "triton_model",
    "string", "number", "integer", "boolean",
]  # fmt: skip
InputMode = Literal["ro_mount", "download", "direct", "eval_mount", "eval_download"]
OutputMode = Literal["rw_mount", "mount", "upload", "direct"]

Place = Annotated[Filled, NoSecret]
Datastore = Annotated[
    Filled, named("a datastore", "Write the name of one, like `default`; see them: drumbeat datastore list")
]

OF_PARAMETERS = ("default", "min", "max", "enum")
OF_DATA = ("path", "mode", "datastore", "path_on_compute")


class Input(Model):
    """Data, a model, or a declared parameter."""

    type: Annotated[InputType, AnyCase(path="uri_folder")] = Field(
        default="uri_folder", description="Kind of the data or parameter."
    )
    path: Place | None = Field(default=None, description="Local path, URL, `azureml:name:version` or datastore path.")
    mode: Annotated[InputMode, AnyCase()] | None = Field(
        default=None,
        description="How ranks access it: mounted, copied, or by URL; for an `mltable`, the files that it names.",
    )
    datastore: Datastore | None = Field(default=None, description="Datastore that a local path is uploaded to.")
    path_on_compute: Filled | None = Field(default=None, description="Path on the node, as a `file:` URL.")
    default: Scalar | None = Field(default=None, description="Default value of a parameter.")
    min: Figure | None = Field(default=None, description="Minimum of a number.")
    max: Figure | None = Field(default=None, description="Maximum of a number.")
    enum: list[Scalar] | None = Field(default=None, min_length=1, description="Allowed values of a parameter.")
    optional: bool = Field(
        default=False, description="Whether the value may be missing; `$[[ ]]` around its use is then removed."
    )
    description: Text | None = Field(default=None, description="Description of its purpose.")

    @property
    def is_parameter(self) -> bool:
        """A plain value, not data."""
        return self.type in get_args(ParameterType)

    @property
    def is_evaluated(self) -> bool:
        """Of an `mltable`, the files that its table names."""
        return self.mode in ("eval_mount", "eval_download")

    @property
    def is_absent(self) -> bool:
        """Optional, and without a value of its own."""
        return self.optional and self.path is None and self.default is None

    def contradictions(self) -> Iterator[Contradiction]:
        for key in OF_DATA if self.is_parameter else OF_PARAMETERS:
            if getattr(self, key) is not None:
                yield Contradiction((key,), f"an input of type `{self.type}` has no `{key}`")
        if self.mode in ("eval_mount", "eval_download") and self.type != "mltable":
            yield Contradiction(("mode",), f"`{self.mode}` is for `mltable`, not for `{self.type}`")
        if self.min is not None and self.max is not None and self.min > self.max:
            yield Contradiction(("min",), f"the least value, {self.min}, is above the greatest, {self.max}")
        if self.default is not None and self.is_parameter:
            yield from self._default_fits()

    def _default_fits(self) -> Iterator[Contradiction]:
        value = None if self.default is None else typed(self.type, self.default)
        if value is None:
            yield Contradiction(("default",), f"the default {shown(self.default)} isn't of type `{self.type}`")
        elif self.enum is not None and value not in [typed(self.type, one) for one in self.enum]:
            yield Contradiction(("default",), f"{shown(value)} is none of {words(map(str, self.enum), 'or')}")
        elif isinstance(value, int | float) and not isinstance(value, bool) and not _between(value, self.min, self.max):
            yield Contradiction(("default",), f"{shown(value)} is outside of `min` and `max`")


def _between(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


class Output(Model):
    """A location that the job writes to."""

    type: Annotated[DataType, AnyCase(path="uri_folder")] = Field(
        default="uri_folder", description="Kind of the output."
    )
    mode: Annotated[OutputMode, AnyCase()] | None = Field(
        default=None,
        description="Written on the node and stored at the end, or uploaded by the ranks to a signed URL (`direct`).",
    )
    path: Place | None = Field(default=None, description="Destination; a folder of the job when not set.")
    name: Filled | None = Field(default=None, description="Registers the output as a data asset of this name.")
    version: Version | None = Field(
        default=None, description="Version of that asset; the next free version when not set."
    )
    path_on_compute: Filled | None = Field(default=None, description="Path on the node, as a `file:` URL.")
    description: Text | None = Field(default=None, description="Description of its purpose.")

    def contradictions(self) -> Iterator[Contradiction]:
        if self.version is not None and self.name is None:
            yield Contradiction(("version",), "a version without a `name` to register", "Add `name:`.")


def _input(value: object, info: ValidationInfo) -> object:
    """A mapping is an `Input`; everything else must be a literal."""
    if isinstance(value, Input):
        return value
    if isinstance(value, dict):
        return Input.model_validate(cast("dict[str, object]", value), context=info.context)
    if not isinstance(value, bool | int | float | str):
        raise complaint(f"expected a value or a mapping with `type` and `path`, got {shown(value)}")
    return literal(value)


def _output(value: object) -> object:
    return {} if value is None else value


def _written(value: object) -> object:
    """Leaves out inputs without a value, as with every other key."""
    if not isinstance(value, dict):
        return value
    return {name: given for name, given in cast("dict[object, object]", value).items() if given is not None}


InputValue = Annotated[Input | Scalar, BeforeValidator(_input)]
OutputValue = Annotated[Output, BeforeValidator(_output)]
InputValues = Annotated[dict[Identifier, InputValue], BeforeValidator(_written)]
DeclaredInputs = Annotated[dict[Identifier, Input], BeforeValidator(_written)]
