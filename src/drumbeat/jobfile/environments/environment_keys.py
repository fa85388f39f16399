"""What a job's processes run in: an image, a build, or a Python environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import AfterValidator, Field

from drumbeat.jobfile.reading.field_types import (
    AsText,
    Filled,
    InnerPath,
    Port,
    Text,
    TextOrTable,
    Variable,
    Version,
    Whole,
    complaint,
    named,
)
from drumbeat.jobfile.reading.loader import DocumentKind, Places, load_model, model_from
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, model_or_text
from drumbeat.model.errors import Problem, SpecError


class BuildContext(Model):
    """A folder with a Dockerfile."""

    path: Filled = Field(description="Path of the folder.")
    dockerfile_path: InnerPath = Field(default="Dockerfile", description="The Dockerfile inside that folder.")


class Route(Model):
    """One HTTP route of a scoring container."""

    port: Port = Field(description="Port to listen on.")
    path: Filled = Field(description="Path of the request.")


class InferenceConfig(Model):
    """The routes of an image that brings its own scoring server."""

    liveness_route: Route | None = Field(default=None, description="Route that responds while the server is alive.")
    readiness_route: Route | None = Field(
        default=None, description="Route that responds when the server is ready to score."
    )
    scoring_route: Route | None = Field(default=None, description="Route that receives requests.")


CXX_STANDARDS = (11, 14, 17, 20, 23)


def _standard(value: int) -> int:
    if value not in CXX_STANDARDS:
        raise complaint(f"there is no C++{value}", f"One of {', '.join(map(str, CXX_STANDARDS))}.")
    return value


class FromSource(Model):
    """Settings for building a package on the nodes when it has no suitable wheel."""

    variables: dict[Variable, AsText] = Field(default_factory=dict, description="Environment variables of the build.")
    cxx_standard: Annotated[Whole, AfterValidator(_standard)] | None = Field(
        default=None, description="Minimum C++ standard, overriding the package's own setting."
    )
    requires: list[Filled] = Field(
        default_factory=list, description="Requirements of the build alone, in pip's format."
    )
    programs: list[Filled] = Field(default_factory=list, description="Programs that the build needs on `PATH`.")
    linked_to: list[Filled] = Field(
        default_factory=list,
        description="Packages of the environment, or programs, whose versions a built wheel depends on.",
    )


class EnvironmentExtensions(Model):
    """Settings that drumbeat adds to an environment."""

    from_source: dict[Filled, FromSource] = Field(
        default_factory=dict,
        description="Packages that the nodes build from source, by name, with their build settings.",
    )


class Environment(Model):
    """An environment that is defined in the job itself."""

    noun: ClassVar[str] = "the environment"
    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})

    name: Filled | None = Field(
        default=None, description="Name to register it under; environments without a name are identified by content."
    )
    version: Version | None = Field(default=None, description="Version under that name.")
    image: Annotated[Filled, named("an image", "Write the image, like `python:3.12`.")] | None = Field(
        default=None, description="Container image."
    )
    build: BuildContext | None = Field(default=None, description="Image to build, instead of `image`.")
    conda_file: TextOrTable | None = Field(default=None, description="Conda file, as a path or inline.")
    inference_config: InferenceConfig | None = Field(
        default=None,
        description="Routes of its own server, in deployments, also those that name it. Ignored in jobs.",
    )
    os_type: Annotated[Literal["linux", "windows"], AnyCase()] = Field(
        default="linux", description="Operating system. Nodes run Linux: `windows` is refused."
    )
    datastore: Filled | None = Field(
        default=None, description="Datastore that a build folder is uploaded to in a cloud. Ignored by drumbeat."
    )
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free-form labels.")
    description: Text | None = Field(default=None, description="Description of its purpose.")
    drumbeat: EnvironmentExtensions = Field(
        default_factory=EnvironmentExtensions, description="What drumbeat adds to the dialect."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        if self.image and self.build:
            yield Contradiction(("build",), "both `image` and `build`", "Keep one of them.")
        if self.build and self.conda_file is not None:
            yield Contradiction(
                ("conda_file",), "both `build` and `conda_file`", "Install the packages in the Dockerfile."
            )
        if not self.image and not self.build and self.conda_file is None:
            yield Contradiction((), "the environment says nothing", "Give it `image`, `build` or `conda_file`.")


EnvironmentValue = Annotated[
    Environment | Filled,
    model_or_text(lambda: Environment, "`azureml:name:version`"),
    named("an environment", "Write the name of one, like `azureml:name:1`; see them: drumbeat environment list"),
]


# --- one that has a file of its own -----------------------------------------------------------------------------
def load_environment(path: str | Path, overrides: Sequence[str] = ()) -> Environment:
    """The environment in a file; raises `SpecError` with every problem at its line."""
    return cast("Environment", load_model(path, ENVIRONMENT, overrides))


def environment_from(document: Mapping[str, Any], name: str = "environment") -> Environment:
    """The environment in a mapping as YAML would give it; places in messages are `name.key`."""
    return cast("Environment", model_from(document, ENVIRONMENT, name))


def _choose_model(document: Mapping[str, Any], places: Places) -> type[Environment]:
    """The model; a conda file that was taken for one is said to be that."""
    if "dependencies" in document:
        what = "this is a conda file, and not an environment that names one"
        fix = "Name it with `conda_file: FILE` in one, or: drumbeat environment create NAME --conda FILE"
        raise SpecError.from_problems([Problem(what, places(("dependencies",), "key", ""), fix)])
    return Environment


ENVIRONMENT = DocumentKind("an environment", _choose_model, "`name:`, and `conda_file:` or `image:`")
