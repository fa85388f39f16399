"""A batch endpoint, and a deployment of it as the server keeps it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from drumbeat.jobfile.job.resources_and_limits import ComputeName
from drumbeat.jobfile.reading.field_types import AsText, Count, Filled, Text, pattern
from drumbeat.jobfile.reading.loader import DocumentKind
from drumbeat.jobfile.reading.model import AnyCase, Model

NAME = r"[a-zA-Z](?:[-a-zA-Z0-9]{1,30}[a-zA-Z0-9])"
RULE = "letters, digits and `-`, a letter first and no `-` last, 3 to 32 characters"
EndpointName = Annotated[str, pattern(NAME, RULE)]
READ_ONLY = frozenset(
    {"id", "scoring_uri", "openapi_uri", "provisioning_state", "location", "kind", "creation_context"}
)


class EndpointDefaults(Model):
    """What an invocation takes that says nothing else."""

    deployment_name: EndpointName | None = Field(default=None, description="The deployment that runs.")


class BatchEndpoint(Model):
    """A name under which deployments score data."""

    noun: ClassVar[str] = "the endpoint"
    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})
    read_only: ClassVar[frozenset[str]] = READ_ONLY

    name: EndpointName = Field(description="Name of the endpoint.")
    auth_mode: Annotated[Literal["aad_token"], AnyCase()] = Field(
        default="aad_token",
        description="`aad_token`, as in Azure's files; users that may submit jobs may invoke it.",
    )
    defaults: EndpointDefaults = Field(default_factory=EndpointDefaults, description="What runs if nothing is said.")
    description: Text | None = Field(default=None, description="Description of its purpose.")
    tags: dict[Text, AsText] = Field(default_factory=dict, description="Free-form labels.")
    properties: dict[Text, AsText] = Field(default_factory=dict, description="Labels that can't be changed.")


class KeptBatchDeployment(Model):
    """A deployment as the server keeps it: a registered component, and what its jobs are given."""

    noun: ClassVar[str] = "the deployment"

    name: Annotated[str, pattern(rf"{NAME}\.{NAME}", "ENDPOINT.DEPLOYMENT")] = Field(
        description="Endpoint and deployment, with a dot."
    )
    type: Literal["model", "pipeline"] = Field(default="model", description="What it runs.")
    component: Filled = Field(description="The registered component that its jobs run.")
    compute: ComputeName | None = Field(default=None, description="The compute of its jobs.")
    instance_count: Count = Field(default=1, description="Nodes of its jobs.")
    model: Text | None = Field(default=None, description="The model, as the file names it.")
    settings: dict[Text, Any] = Field(default_factory=dict, description="Settings of the runner.")
    pipeline_settings: dict[Text, Any] = Field(default_factory=dict, description="Settings of the pipeline.")
    output_file_name: Filled = Field(default="predictions.csv", description="The file of results.")
    description: Text | None = Field(default=None, description="Description of its purpose.")
    tags: dict[Text, AsText] = Field(default_factory=dict, description="Free-form labels.")


def _endpoint(*_: Any) -> type[Model]:
    return BatchEndpoint


def _kept(*_: Any) -> type[Model]:
    return KeptBatchDeployment


BATCH_ENDPOINT = DocumentKind("a batch endpoint", _endpoint, "`name:`")
KEPT_DEPLOYMENT = DocumentKind("a batch deployment", _kept, "`name:` and `component:`")
