"""The file of a batch deployment: a model with or without a script, or a pipeline component."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field

from drumbeat.jobfile.batch.endpoints import READ_ONLY, EndpointName
from drumbeat.jobfile.environments.environment_keys import EnvironmentValue
from drumbeat.jobfile.job.resources_and_limits import ComputeName, Resources
from drumbeat.jobfile.pipelines.parallel import Threshold
from drumbeat.jobfile.pipelines.pipeline_job import PipelineComponent, PipelineSettings
from drumbeat.jobfile.reading.field_types import AsText, Count, Filled, Number, Text, Variable, Whole, pattern
from drumbeat.jobfile.reading.loader import DocumentKind
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, model_or_text

FileName = Annotated[str, pattern(r"[^/\0]{1,200}", "the name of a file, without `/`")]


class CodeConfiguration(Model):
    """The script of a deployment."""

    code: Filled = Field(default=".", description="Folder with the source code.")
    scoring_script: Filled = Field(description="Script in it, with `run(mini_batch)`.")


class BatchRetrySettings(Model):
    """Retries of a mini-batch that failed."""

    max_retries: Annotated[Whole, Field(ge=0, le=1_000)] = Field(default=3, description="Retries of a mini-batch.")
    timeout: Annotated[Number, Field(gt=0, le=259_200)] = Field(default=30.0, description="Seconds for one.")


class BatchDeploymentSettings(Model):
    """How a model deployment divides its input, and what it does with results and failures."""

    mini_batch_size: Count | None = Field(default=None, description="Files of a mini-batch; 10 when not set.")
    max_concurrency_per_instance: Count | None = Field(
        default=None, description="Worker processes of each node; 1 when not set."
    )
    output_action: Annotated[Literal["append_row", "summary_only"], AnyCase()] | None = Field(
        default=None, description="`append_row`: results go into a file; `summary_only`: they are only counted."
    )
    output_file_name: FileName | None = Field(
        default=None, description="The file of results; `predictions.csv` when not set."
    )
    error_threshold: Threshold | None = Field(
        default=None, description="Files without a result that are tolerated; any number when not set, or -1."
    )
    retry_settings: BatchRetrySettings | None = Field(default=None, description="Retries of a failed mini-batch.")
    logging_level: Annotated[Literal["debug", "info", "warning"], AnyCase()] | None = Field(
        default=None, description="Least level of messages in the log."
    )
    environment_variables: dict[Variable, AsText] = Field(
        default_factory=dict, description="Environment variables of every worker."
    )


class DeploymentKeys(Model):
    """The keys that all batch deployments have."""

    noun: ClassVar[str] = "the deployment"
    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})
    read_only: ClassVar[frozenset[str]] = READ_ONLY

    name: EndpointName = Field(description="Name of the deployment.")
    endpoint_name: EndpointName = Field(description="The endpoint that it belongs to.")
    description: Text | None = Field(default=None, description="Description of its purpose.")
    tags: dict[Text, AsText] = Field(default_factory=dict, description="Free-form labels.")
    properties: dict[Text, AsText] = Field(default_factory=dict, description="Labels that can't be changed.")


class ModelBatchDeployment(DeploymentKeys, BatchDeploymentSettings):
    """A model that scores files, by a script, or by itself if it is an MLflow model."""

    type: Annotated[Literal["model"], AnyCase()] = Field(default="model", description="`model`; optional.")
    model: Annotated[Any, Field(description="The model: `azureml:NAME:VERSION`, or `path` and `type`.")] = None
    code_configuration: CodeConfiguration | None = Field(default=None, description="The script.")
    environment: EnvironmentValue | None = Field(default=None, description="Environment to run in.")
    compute: ComputeName | None = Field(default=None, description="The compute to run on.")
    resources: Resources = Field(default_factory=Resources, description="Number and kind of nodes.")
    settings: BatchDeploymentSettings = Field(
        default_factory=BatchDeploymentSettings, description="Division, results and failures."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        for key in self.settings.model_fields_set & self.model_fields_set:
            yield Contradiction(("settings", key), f"`{key}` is there twice: here, and beside `settings`", "Keep one.")
        if self.model is None and self.code_configuration is None:
            fix = "Add `model:` with an MLflow model, or `code_configuration:`."
            yield Contradiction((), "neither a model nor a script", fix)
        if self.model is not None and not model_path(self.model):
            fix = "Write `azureml:NAME:VERSION`, or a mapping with `path` and `type`."
            yield Contradiction(("model",), "expected the model's name, or its path", fix)

    def setting(self, key: str, default: Any) -> Any:
        """Returns a setting, from `settings` or from beside it."""
        for place in (self.settings, self):
            if (value := getattr(place, key)) is not None:
                return value
        return default


class PipelineBatchDeployment(DeploymentKeys):
    """A pipeline component that an invocation runs as a pipeline job."""

    type: Annotated[Literal["pipeline"], AnyCase()] = Field(default="pipeline", description="Always `pipeline`.")
    component: Annotated[
        PipelineComponent | Filled, model_or_text(lambda: PipelineComponent, "a component's file or reference")
    ] = Field(description="The pipeline component: a file, a reference, or an inline definition.")
    settings: PipelineSettings = Field(default_factory=PipelineSettings, description="Settings of its steps.")


def model_path(model: Any) -> str:
    """Returns the path or the reference of a model; "" = it has none."""
    given: object = cast("Mapping[str, Any]", model).get("path") if isinstance(model, Mapping) else model
    return given if isinstance(given, str) else ""


def model_type(model: Any, default: str) -> str:
    """Returns the type of a model that is written out."""
    return str(cast("Mapping[str, Any]", model).get("type") or default) if isinstance(model, Mapping) else default


def _deployment(document: Mapping[str, Any], _places: object = None) -> type[Model]:
    kind = str(document.get("type", "")).strip().casefold()
    return PipelineBatchDeployment if kind == "pipeline" else ModelBatchDeployment


BATCH_DEPLOYMENT = DocumentKind("a batch deployment", _deployment, "`name:` and `endpoint_name:`")
