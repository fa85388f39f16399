"""Online endpoints and their deployments as the client sends them, the server keeps them, and views show them.

The dialect of their files is `jobfile/endpoints/`; what the API adds, such as states and addresses, is
`model/api/endpoints.py`. On the wire they are what `model.wire` makes of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, cast

from drumbeat.model.api.constraints import NO_OTHER_KEYS, Constraint, limited
from drumbeat.model.api.requests import Digest, EnvironmentFiles
from drumbeat.model.errors import SpecError

NAME_PATTERN = r"[a-zA-Z](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?"
NAME_RULE = "letters, digits and `-`, a letter first and no `-` last, 3 to 32 characters"
MIN_NAME, MAX_NAME = 3, 32

EndpointName = Annotated[str, Constraint(pattern=f"^{NAME_PATTERN}$", min_length=MIN_NAME, max_length=MAX_NAME)]
DeploymentName = EndpointName
Percentages = dict[str, Annotated[int, Constraint(ge=0, le=100)]]
"""Percent of the requests by deployment."""

AuthMode = Literal["key", "aml_token"]
EndpointKind = Literal["managed", "kubernetes"]
KeyType = Literal["primary", "secondary"]
ModelType = Literal["custom_model", "mlflow_model", "triton_model"]

MAX_TIMEOUT_MS = 180_000
MAX_INSTANCES = 10_000
MAX_MIRRORED = 50
"""Azure's limit: percent of the requests that are mirrored."""


def check_name(name: str, noun: str = "an endpoint") -> str:
    """Returns the name of an endpoint or a deployment. Raises SpecError with the rule for one that isn't allowed."""
    if MIN_NAME <= len(name) <= MAX_NAME and re.fullmatch(NAME_PATTERN, name):
        return name
    raise SpecError(f"{name[:60]!r} can't be the name of {noun}: {NAME_RULE}", where="name")


@dataclass(frozen=True)
class OnlineEndpoint:
    """An address that requests are sent to, and how they are divided among its deployments."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    name: EndpointName
    auth_mode: AuthMode = "key"
    kind: EndpointKind = "managed"
    """Which of Azure's schemas describes it; the same here."""
    compute: str = ""
    """The compute of deployments that name none; "" = the default compute."""
    traffic: Percentages = field(default_factory=dict[str, int])
    """The sum is 0 or 100."""
    mirror_traffic: Percentages = field(default_factory=dict[str, int])
    """At most one deployment, with up to `MAX_MIRRORED`, which has no live traffic."""
    description: str = ""
    tags: dict[str, str] = field(default_factory=dict[str, str])
    properties: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class DeployedModel:
    """The model of a deployment. The last part of its address is the name of its folder in AZUREML_MODEL_DIR."""

    path: str
    """A version in the registry (`azureml:NAME:VERSION`, `azureml:NAME@LABEL`), or the address of its files: the client
    uploads local files before it sends a deployment."""
    type: ModelType = "custom_model"
    """Of an address. A version has its own type."""


@dataclass(frozen=True)
class ScaleSettings:
    """How many replicas there are: `instance_count` of them (`default`), or as many as the use of them asks for."""

    type: Literal["default", "target_utilization"] = "default"
    min_instances: int = field(default=1, metadata=limited(ge=0, le=MAX_INSTANCES))
    max_instances: int = field(default=1, metadata=limited(ge=1, le=MAX_INSTANCES))
    target_utilization_percentage: int = field(default=70, metadata=limited(ge=1, le=100))
    """Of (replicas with a request + requests that wait) / replicas."""
    polling_interval_s: int = field(default=1, metadata=limited(ge=1, le=3600))


@dataclass(frozen=True)
class RequestSettings:
    """Limits of one request. max_queue_wait_ms: part of the time limit in Azure now; None = `request_timeout_ms`."""

    request_timeout_ms: int = field(default=5000, metadata=limited(ge=1, le=MAX_TIMEOUT_MS))
    max_concurrent_requests_per_instance: int = field(default=1, metadata=limited(ge=1, le=10_000))
    max_queue_wait_ms: int | None = field(default=None, metadata=limited(ge=0, le=MAX_TIMEOUT_MS))


@dataclass(frozen=True)
class ProbeSettings:
    """How often a replica is asked whether it lives, or is ready. Times in seconds."""

    initial_delay: int = field(default=10, metadata=limited(ge=0, le=86_400))
    period: int = field(default=10, metadata=limited(ge=1, le=86_400))
    timeout: int = field(default=2, metadata=limited(ge=1, le=86_400))
    success_threshold: int = field(default=1, metadata=limited(ge=1, le=1000))
    failure_threshold: int = field(default=30, metadata=limited(ge=1, le=100_000))


@dataclass(frozen=True)
class ResourceAmounts:
    """Resources in Kubernetes' words, such as `500m` CPU, `1Gi` memory and `1` GPU; "" = not said."""

    cpu: str = ""
    memory: str = ""
    gpu: str = ""


@dataclass(frozen=True)
class BatchSettings:
    """Requests that are run together: at most so many, and no request waits longer than that for others."""

    max_batch_size: int = field(default=16, metadata=limited(ge=1, le=10_000))
    max_wait_ms: float = field(default=2.0, metadata=limited(ge=0, le=60_000))


@dataclass(frozen=True)
class DeploymentExtension:
    """What drumbeat adds to Azure's dialect, under `drumbeat:`."""

    batching: BatchSettings | None = None
    """None = one request after the other."""
    cold_start_s: float = field(default=60.0, metadata=limited(ge=0, le=3600))
    """How long requests wait for the first replica of a deployment that is scaled to zero."""
    retry: bool = True
    """Whether a request whose replica died while it ran may run again on another one."""
    compute: str = ""
    """The compute of the replicas; "" = the endpoint's, else the default compute."""
    command: str = ""
    """The shell command of a server with routes of its own, which `inference_config` names; "" = the image's own."""
    max_log_mib: int = field(default=64, metadata=limited(ge=0, le=1 << 20))
    """MiB of each replica's logs that are kept; 0 = all."""


@dataclass(frozen=True)
class OnlineDeployment:
    """A model behind an endpoint: what its replicas run, how many there are, and the limits of requests."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    name: DeploymentName
    endpoint_name: EndpointName
    model: DeployedModel | None = None
    """None for a container that has its model, or needs none."""
    code: Digest | None = None
    """SHA-256 of the snapshot with the code."""
    scoring_script: str = ""
    """The script inside the code; "" = an MLflow model, or a server with routes of its own."""
    environment: Any = None
    """As in a job: a name, or a mapping, there with `inference_config`. None = the server's own Python."""
    environment_files: EnvironmentFiles = field(default_factory=EnvironmentFiles)
    """The files that `environment` names."""
    environment_variables: dict[str, str] = field(default_factory=dict[str, str])
    instance_type: str = ""
    """As in a job: `cpu`, `gpu:N`, or an alias; "" = by `resources`."""
    instance_count: int = field(default=1, metadata=limited(ge=0, le=MAX_INSTANCES))
    scale_settings: ScaleSettings = field(default_factory=ScaleSettings)
    request_settings: RequestSettings = field(default_factory=RequestSettings)
    liveness_probe: ProbeSettings = field(default_factory=ProbeSettings)
    readiness_probe: ProbeSettings = field(default_factory=ProbeSettings)
    model_mount_path: str = ""
    requests: ResourceAmounts = field(default_factory=ResourceAmounts)
    """What a replica needs: the table `requests` of `resources`."""
    limits: ResourceAmounts = field(default_factory=ResourceAmounts)
    """The most that a replica may use: the table `limits` of `resources`."""
    description: str = ""
    tags: dict[str, str] = field(default_factory=dict[str, str])
    properties: dict[str, str] = field(default_factory=dict[str, str])
    drumbeat: DeploymentExtension = field(default_factory=DeploymentExtension)
    notes: tuple[str, ...] = ()
    """What only the client sees, such as keys that mean nothing here; part of the view's notes."""

    @property
    def inference_config(self) -> dict[str, Any]:
        """The routes of a server of one's own: `scoring_route` and others, each `{port, path}`; {} = there is none."""
        if not isinstance(self.environment, dict):
            return {}
        return cast("dict[str, Any]", self.environment).get("inference_config") or {}
