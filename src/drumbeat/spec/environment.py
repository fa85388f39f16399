"""What a job's processes run in: an image, a build, or a Python environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from drumbeat.spec.shape import AnyCase, Contradiction, Model, model_or_text
from drumbeat.spec.values import AsText, Filled, InnerPath, Port, Text, TextOrTable, Version


class BuildContext(Model):
    """A folder with a Dockerfile."""

    path: Filled = Field(description="The folder, beside the job file or at an address.")
    dockerfile_path: InnerPath = Field(default="Dockerfile", description="The Dockerfile inside that folder.")


class Route(Model):
    """One HTTP route of a scoring container."""

    port: Port = Field(description="Port that it listens on.")
    path: Filled = Field(description="Path of the request.")


class InferenceConfig(Model):
    """The routes of an image that brings its own scoring server."""

    liveness_route: Route | None = Field(default=None, description="Answers while the server lives.")
    readiness_route: Route | None = Field(default=None, description="Answers when it can score.")
    scoring_route: Route | None = Field(default=None, description="Takes the requests.")


class Environment(Model):
    """An environment written into the job itself."""

    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})

    name: Filled | None = Field(
        default=None, description="Name to keep it under; nameless ones are known by their content."
    )
    version: Version | None = Field(default=None, description="Version under that name.")
    image: Filled | None = Field(default=None, description="Container image.")
    build: BuildContext | None = Field(default=None, description="Image to build; instead of `image`.")
    conda_file: TextOrTable | None = Field(default=None, description="Conda file, as a path or written out.")
    inference_config: InferenceConfig | None = Field(default=None, description="Routes, for serving.")
    os_type: Annotated[Literal["linux", "windows"], AnyCase()] = Field(default="linux", description="Operating system.")
    datastore: Filled | None = Field(default=None, description="Datastore that a build folder is uploaded to.")
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free labels.")
    description: Text | None = Field(default=None, description="What it is for.")

    def contradictions(self) -> Iterator[Contradiction]:
        if self.image and self.build:
            yield Contradiction(("build",), "both `image` and `build`", "Keep one of them.")
        if self.build and self.conda_file is not None:
            yield Contradiction(
                ("conda_file",), "both `build` and `conda_file`", "Install the packages in the Dockerfile."
            )
        if not self.image and not self.build and self.conda_file is None:
            yield Contradiction((), "the environment says nothing", "Give it `image`, `build` or `conda_file`.")


EnvironmentValue = Annotated[Environment | Filled, model_or_text(lambda: Environment, "`azureml:name:version`")]
