"""A deployment of an online endpoint as its file describes it: model, code, environment, replicas and limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field

from drumbeat.jobfile.data.assets import ModelAsset
from drumbeat.jobfile.data.paths import AssetReference, local_path, reference_to
from drumbeat.jobfile.endpoints.endpoint_keys import READ_ONLY, EndpointNameText
from drumbeat.jobfile.environments.environment_keys import Environment, EnvironmentValue
from drumbeat.jobfile.job.resources_and_limits import ComputeName
from drumbeat.jobfile.reading.error_messages import shown
from drumbeat.jobfile.reading.field_types import (
    AsText,
    Count,
    Filled,
    InnerPath,
    Json,
    Number,
    Text,
    Variable,
    Whole,
    complaint,
    named,
    pattern,
)
from drumbeat.jobfile.reading.loader import DocumentKind, Places, load_model, model_from
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, model_or_text
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.endpoints import (
    MAX_INSTANCES,
    MAX_TIMEOUT_MS,
    BatchSettings,
    DeployedModel,
    DeploymentExtension,
    OnlineDeployment,
    ProbeSettings,
    RequestSettings,
    ResourceAmounts,
    ScaleSettings,
)
from drumbeat.model.errors import SpecError

FILE = "file:"
CODE_FIX = "Name a folder beside this file, like `code: ./src`."


def _code(value: str) -> str:
    if local_path(value) is None:
        raise complaint(f"{shown(value)} isn't a folder of this machine", CODE_FIX)
    return value


def _model_name(value: object) -> object:
    """Checks the text that names a model: a version in the registry, or a file that describes one."""
    if not isinstance(value, str) or value.startswith(FILE):
        return value
    if "://registries/" in value or value.startswith("azureml://registries"):
        fix = "Download the model, and register it here: drumbeat model create NAME --path PATH"
        raise complaint("models in Azure's registries can't be read from here", fix)
    fix = "Write `azureml:NAME:VERSION`, `azureml:NAME@latest`, or a mapping with `path:`."
    try:
        reference = reference_to(value)
    except SpecError as error:
        raise complaint(error.what, error.fix or fix) from None
    if not isinstance(reference, AssetReference):
        raise complaint(f"{shown(value)} doesn't name a registered model", fix)
    return value


class CodeSettings(Model):
    """The scoring script and the folder that it is in."""

    code: Annotated[Filled, AfterValidator(_code)] = Field(description="Path of the folder with the source code.")
    scoring_script: InnerPath = Field(description="The script inside that folder, with `init()` and `run()`.")


class ScalingKeys(Model):
    """How many replicas there are."""

    type: Annotated[Literal["default", "target_utilization"], AnyCase()] = Field(
        description="`default`: `instance_count` of them. `target_utilization`: as many as their use asks for. When "
        "not set, the second if any other key is."
    )
    min_instances: Annotated[Whole, Field(ge=0, le=MAX_INSTANCES)] = Field(
        default=1, description="The fewest replicas; with `0`, the first request waits for one."
    )
    max_instances: Annotated[Whole, Field(ge=1, le=MAX_INSTANCES)] = Field(default=1, description="The most replicas.")
    target_utilization_percentage: Annotated[Whole, Field(ge=1, le=100)] = Field(
        default=70, description="Target of (busy replicas + requests that wait) / replicas, in percent."
    )
    polling_interval: Annotated[Whole, Field(ge=1, le=3600)] = Field(
        default=1, description="Seconds from one look at the use to the next."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        if self.min_instances > self.max_instances:
            what = f"at most {self.max_instances} replicas, but `min_instances` is {self.min_instances}"
            yield Contradiction(("max_instances",), what)
        others = self.model_fields_set - {"type"}
        if self.type == "default" and others:
            what = f"scaling of type default has no `{min(others)}`"
            yield Contradiction(("type",), what, "Write `type: target_utilization`, or set `instance_count` instead.")


def _with_type(value: object) -> object:
    if not isinstance(value, dict) or cast("dict[str, object]", value).get("type") is not None:
        return cast("object", value)
    written = {key: one for key, one in cast("dict[str, object]", value).items() if key != "type"}
    return {"type": "target_utilization" if written else "default", **written}


Milliseconds = Annotated[Whole, Field(ge=1, le=MAX_TIMEOUT_MS)]


class RequestLimits(Model):
    """Limits of one request."""

    request_timeout_ms: Milliseconds = Field(
        default=5000, description="Milliseconds until the answer must have begun; then the client gets 408."
    )
    max_concurrent_requests_per_instance: Count = Field(
        default=1, description="Requests that a replica runs at once. Twice as many are admitted; beyond that 429."
    )
    max_queue_wait_ms: Annotated[Whole, Field(ge=0, le=MAX_TIMEOUT_MS)] | None = Field(
        default=None, description="Milliseconds that a request may wait for a replica; by default its time limit."
    )


PositiveSeconds = Annotated[Whole, Field(ge=1, le=86_400)]


class ProbeKeys(Model):
    """How often a replica is asked whether it lives, or is ready."""

    initial_delay: Annotated[Whole, Field(ge=0, le=86_400)] = Field(
        default=10, description="Seconds before the first probe."
    )
    period: PositiveSeconds = Field(default=10, description="Seconds from one probe to the next.")
    timeout: PositiveSeconds = Field(default=2, description="Seconds in which a probe must be answered.")
    success_threshold: Annotated[Whole, Field(ge=1, le=1000)] = Field(
        default=1, description="Probes in a row that must succeed after a failure."
    )
    failure_threshold: Annotated[Whole, Field(ge=1, le=100_000)] = Field(
        default=30, description="Probes in a row that must fail until it counts as failed."
    )


Quantity = Annotated[
    AsText, pattern(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?", "a quantity such as `500m`, `1.5` or `2Gi`")
]


class ContainerAmounts(Model):
    """Resources of one replica, in Kubernetes' words."""

    cpu: Quantity | None = Field(default=None, description="CPUs, like `0.5` or `500m`. Ignored by drumbeat.")
    memory: Quantity | None = Field(default=None, description="Memory, like `1Gi`. Ignored by drumbeat.")
    gpu: Annotated[AsText, pattern(r"[0-9]{1,4}", "a number of GPUs")] | None = Field(
        default=None, alias="nvidia.com/gpu", description="Number of GPUs."
    )


class ContainerResources(Model):
    """What a replica needs, and the most that it may use."""

    requests: ContainerAmounts = Field(default_factory=ContainerAmounts, description="What it needs.")
    limits: ContainerAmounts = Field(default_factory=ContainerAmounts, description="The most that it may use.")


class BatchingKeys(Model):
    """Requests that are run together."""

    max_batch_size: Count = Field(default=16, description="The most requests of one batch.")
    max_wait_ms: Annotated[Number, Field(ge=0, le=60_000)] = Field(
        default=2.0, description="Milliseconds that a request waits for others."
    )


class DeploymentExtensions(Model):
    """What drumbeat adds to a deployment."""

    batching: BatchingKeys | None = Field(
        default=None, description="Runs requests together: of MLflow models, and of scripts with `run_batch`."
    )
    cold_start_s: Annotated[Number, Field(ge=0, le=3600)] = Field(
        default=60.0, description="Seconds that requests wait for the first replica of a deployment with none."
    )
    retry: bool = Field(
        default=True,
        description="Whether a request may run a second time when its replica died; `false` for scripts with side "
        "effects.",
    )
    compute: ComputeName | None = Field(
        default=None, description="The compute of the replicas; by default the endpoint's, then the default compute."
    )
    command: Filled | None = Field(
        default=None,
        description="Shell command of a server with routes of its own, on the port of `inference_config`.",
    )
    max_log_mib: Annotated[int, Field(ge=0, le=1 << 20)] = Field(
        default=64, description="MiB of each replica's logs that are kept; the oldest are dropped. `0` keeps all."
    )


ModelValue = Annotated[
    ModelAsset | Filled,
    model_or_text(lambda: ModelAsset, "`azureml:NAME:VERSION`"),
    named("a model", "Write the name of one, like `azureml:digits:1`; see them: drumbeat model list"),
    BeforeValidator(_model_name),
]


class OnlineDeploymentKeys(Model):
    """The keys that deployments of both kinds have."""

    noun: ClassVar[str] = "the deployment"
    ignored: ClassVar[frozenset[str]] = READ_ONLY

    name: EndpointNameText = Field(description="Its name.")
    endpoint_name: EndpointNameText = Field(description="The endpoint that it belongs to.")
    model: ModelValue | None = Field(
        default=None, description="The model: a version in the registry, or `path` and `type` of its files."
    )
    code_configuration: CodeSettings | None = Field(
        default=None, description="The scoring script; an MLflow model needs none."
    )
    environment: EnvironmentValue | None = Field(
        default=None, description="Environment of the replicas: a reference or an inline definition."
    )
    environment_variables: dict[Variable, AsText] = Field(
        default_factory=dict, description="Environment variables. `WORKER_COUNT`: processes of a replica."
    )
    instance_type: Annotated[Filled, named("an instance type", "Write `cpu`, `gpu` or `gpu:N`.")] | None = Field(
        default=None, description="`cpu`, `gpu`, `gpu:N`, or an alias of one of these, as in a job."
    )
    instance_count: Count = Field(default=1, description="Number of replicas.")
    scale_settings: Annotated[ScalingKeys, BeforeValidator(_with_type)] | None = Field(
        default=None, description="How the number of replicas changes."
    )
    request_settings: RequestLimits = Field(default_factory=RequestLimits, description="Limits of one request.")
    liveness_probe: ProbeKeys = Field(
        default_factory=ProbeKeys, description="When a replica counts as hung, and is started again."
    )
    readiness_probe: ProbeKeys = Field(default_factory=ProbeKeys, description="When a replica gets requests.")
    model_mount_path: Filled | None = Field(
        default=None, description="Where a container expects its model; `AZUREML_MODEL_DIR` is below it."
    )
    description: Text | None = Field(default=None, description="Description of its purpose.")
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free-form labels.")
    properties: dict[str, AsText] = Field(default_factory=dict, description="Labels that can't be changed.")
    app_insights_enabled: bool | None = Field(
        default=None, description="Ignored by drumbeat: logs are kept, and metrics are at the router."
    )
    data_collector: Json = Field(
        default=None, description="Azure's collection of requests and answers. Ignored by drumbeat."
    )
    drumbeat: DeploymentExtensions = Field(
        default_factory=DeploymentExtensions, description="What drumbeat adds to the dialect."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        scaling, extra = self.scale_settings, self.drumbeat
        own = isinstance(self.environment, Environment) and self.environment.inference_config is not None
        is_named = isinstance(self.environment, str)
        type_ = self.model.type if isinstance(self.model, ModelAsset) else ""
        if scaling and scaling.type == "target_utilization" and "instance_count" in self.model_fields_set:
            low, high = scaling.min_instances, scaling.max_instances
            if not low <= self.instance_count <= high:
                what = f"{self.instance_count} replicas aren't between `min_instances` {low} and `max_instances` {high}"
                yield Contradiction(("instance_count",), what, "Leave it out: the use of replicas says how many.")
        if self.liveness_probe.success_threshold != 1:
            what = "a replica lives once one probe succeeds"
            yield Contradiction(("liveness_probe", "success_threshold"), what, "Leave it out.")
        if not (self.code_configuration or own or extra.command or self.model is not None or is_named):
            what = "there is nothing that answers requests"
            fix = "Give it `code_configuration`, an MLflow model, or an `environment` with `inference_config`."
            yield Contradiction((), what, fix)
        if type_ == "custom_model" and not (self.code_configuration or own or is_named):
            fix = "Give it `code_configuration` with a scoring script, or write `type: mlflow_model` if it is one."
            yield Contradiction(("model",), "a custom model doesn't answer requests by itself", fix)
        if type_ == "triton_model" and not (own or is_named):
            what = "drumbeat brings no Triton server"
            fix = "Name one: `environment` with its image and `inference_config`, and its command under `drumbeat`."
            yield Contradiction(("model",), what, fix)
        if extra.command and not (own or is_named):
            what = "a command needs routes, by which requests reach it"
            fix = "Write `environment: {inference_config: {scoring_route: {port: 8000, path: /score}}}`, too."
            yield Contradiction(("drumbeat", "command"), what, fix)
        if extra.command and self.code_configuration:
            yield Contradiction(("drumbeat", "command"), "both a command and a scoring script", "Keep one of them.")

    def ignored_notes(self) -> Iterator[str]:
        """Yields a sentence about each key that was set and means nothing here."""
        if self.app_insights_enabled:
            yield "app_insights_enabled is ignored: see `drumbeat online-deployment get-logs`"
        if self.data_collector is not None:
            yield "data_collector is ignored: drumbeat doesn't record requests and answers"


class ManagedOnlineDeployment(OnlineDeploymentKeys):
    """A deployment by Azure's managed schema."""

    type: Annotated[Literal["managed"], AnyCase()] = Field(default="managed", description="`managed`; optional.")
    egress_public_network_access: Annotated[Literal["enabled", "disabled"], AnyCase()] | None = Field(
        default=None, description="Ignored by drumbeat."
    )
    private_network_connection: bool | None = Field(default=None, description="Ignored by drumbeat.")

    def ignored_notes(self) -> Iterator[str]:
        yield from super().ignored_notes()
        for key in ("egress_public_network_access", "private_network_connection"):
            if getattr(self, key) is not None:
                yield f"{key} is ignored: replicas have the network of their machine"


class KubernetesOnlineDeployment(OnlineDeploymentKeys):
    """A deployment by Azure's Kubernetes schema."""

    type: Annotated[Literal["kubernetes"], AnyCase()] = Field(description="`kubernetes`.")
    resources: ContainerResources = Field(
        default_factory=ContainerResources, description="What a replica needs, and the most that it may use."
    )

    def ignored_notes(self) -> Iterator[str]:
        yield from super().ignored_notes()
        amounts = (self.resources.requests, self.resources.limits)
        if any(one.cpu or one.memory for one in amounts):
            yield "cpu and memory of `resources` are ignored: a replica has those of a job with one rank"


def _choose_model(document: Mapping[str, Any], places: Places) -> type[Model]:
    """Returns the class, as Azure chooses it: by `type`. `resources` are only in Kubernetes' schema."""
    del places
    kind = document.get("type")
    return KubernetesOnlineDeployment if isinstance(kind, str) and kind.lower() == "kubernetes" else (
        ManagedOnlineDeployment
    )  # fmt: skip


DEPLOYMENT = DocumentKind("a deployment", _choose_model, "`name:` and `endpoint_name:`")


def load_deployment(path: str | Path, overrides: Sequence[str] = ()) -> OnlineDeploymentKeys:
    """Returns the deployment that a file describes. Raises SpecError with every problem at its line."""
    return cast("OnlineDeploymentKeys", load_model(path, DEPLOYMENT, overrides))


def deployment_from(document: Mapping[str, Any], name: str = "deployment") -> OnlineDeploymentKeys:
    """Returns the deployment in a mapping; places in messages are `name.key`."""
    return cast("OnlineDeploymentKeys", model_from(document, DEPLOYMENT, name))


def deployment_definition(
    keys: OnlineDeploymentKeys,
    *,
    model: DeployedModel | None,
    code: str | None,
    environment: Any,
    files: EnvironmentFiles,
) -> OnlineDeployment:
    """Returns the deployment as the server takes it.

    model: with local files uploaded. code: SHA-256 of the snapshot. environment: the document, with the file that it
    names read. files: those that the environment names.
    """
    scaling, extra = keys.scale_settings, keys.drumbeat
    amounts = keys.resources if isinstance(keys, KubernetesOnlineDeployment) else ContainerResources()
    batching = BatchSettings(**extra.batching.model_dump()) if extra.batching else None
    return OnlineDeployment(
        name=keys.name,
        endpoint_name=keys.endpoint_name,
        model=model,
        code=code,
        scoring_script=str(PurePosixPath(keys.code_configuration.scoring_script)) if keys.code_configuration else "",
        environment=environment,
        environment_files=files,
        environment_variables=keys.environment_variables,
        instance_type=keys.instance_type or "",
        instance_count=keys.instance_count,
        scale_settings=_scaling(scaling) if scaling else ScaleSettings(),
        request_settings=RequestSettings(**keys.request_settings.model_dump()),
        liveness_probe=ProbeSettings(**keys.liveness_probe.model_dump()),
        readiness_probe=ProbeSettings(**keys.readiness_probe.model_dump()),
        model_mount_path=keys.model_mount_path or "",
        requests=ResourceAmounts(**_set(amounts.requests)),
        limits=ResourceAmounts(**_set(amounts.limits)),
        description=keys.description or "",
        tags=keys.tags,
        properties=keys.properties,
        drumbeat=DeploymentExtension(
            batching, extra.cold_start_s, extra.retry, (extra.compute or "").removeprefix("azureml:"),
            extra.command or "", extra.max_log_mib,
        ),
        notes=tuple(keys.ignored_notes()),
    )  # fmt: skip


def _scaling(keys: ScalingKeys) -> ScaleSettings:
    values = keys.model_dump()
    interval = values.pop("polling_interval")
    return ScaleSettings(**values, polling_interval_s=interval)


def _set(amounts: ContainerAmounts) -> dict[str, str]:
    return {key: value for key, value in amounts.model_dump().items() if value is not None}
