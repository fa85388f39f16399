"""Online endpoints and deployments: what scripts make and change, and what the server answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from drumbeat.jobfile.endpoints.deployment_keys import OnlineDeploymentKeys
from drumbeat.jobfile.endpoints.endpoint_keys import OnlineEndpointKeys
from drumbeat.jobfile.environments.environment_keys import Environment
from drumbeat.jobfile.pipelines.absolute_paths import environment_with_absolute_paths, with_absolute_paths
from drumbeat.jobfile.reading.model import Model as FrozenModel
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.ml.objects.assets import Model
from drumbeat.ml.objects.environments import RegisteredEnvironment
from drumbeat.ml.objects.plain import Attributes, SystemData
from drumbeat.model import endpoints as definitions
from drumbeat.model.api.endpoints import DeploymentView, EndpointKeys, EndpointToken, EndpointView
from drumbeat.model.errors import RefusedError

Path_ = str | os.PathLike[str]
PROVISIONING = {
    "creating": "Creating", "updating": "Updating", "ready": "Succeeded", "failed": "Failed", "deleting": "Deleting",
}  # fmt: skip
"""Azure's words for the states of endpoints and deployments."""


class Settings(Attributes):
    """A part of a deployment. What isn't set has the default of a file."""

    def to_document(self) -> dict[str, Any]:
        """Returns the keys that are set."""
        return {key: value for key, value in vars(self).items() if value is not None}


class CodeConfiguration(Settings):
    """The scoring script, and the folder that it is in."""

    code: Path_ | None
    scoring_script: Path_ | None

    def __init__(self, code: Path_ | None = None, scoring_script: Path_ | None = None) -> None:
        texts = {key: os.fspath(value) if value is not None else None
                 for key, value in (("code", code), ("scoring_script", scoring_script))}  # fmt: skip
        super().__init__(**texts)


class OnlineRequestSettings(Settings):
    """Limits of one request."""

    def __init__(
        self,
        max_concurrent_requests_per_instance: int | None = None,
        request_timeout_ms: int | None = None,
        max_queue_wait_ms: int | None = None,
    ) -> None:
        super().__init__(
            max_concurrent_requests_per_instance=max_concurrent_requests_per_instance,
            request_timeout_ms=request_timeout_ms,
            max_queue_wait_ms=max_queue_wait_ms,
        )


class ProbeSettings(Settings):
    """How often a replica is asked whether it lives, or is ready. Times in seconds."""

    def __init__(
        self,
        *,
        failure_threshold: int | None = None,
        success_threshold: int | None = None,
        timeout: int | None = None,
        period: int | None = None,
        initial_delay: int | None = None,
    ) -> None:
        super().__init__(
            failure_threshold=failure_threshold,
            success_threshold=success_threshold,
            timeout=timeout,
            period=period,
            initial_delay=initial_delay,
        )


class OnlineScaleSettings(Settings):
    """How the number of replicas changes; subclasses say by what."""

    def __init__(self, type: str, **keys: Any) -> None:
        super().__init__(type=type, **keys)


class DefaultScaleSettings(OnlineScaleSettings):
    """As many replicas as `instance_count`."""

    def __init__(self, **keys: Any) -> None:
        del keys
        super().__init__("default")


class TargetUtilizationScaleSettings(OnlineScaleSettings):
    """As many replicas as their use asks for."""

    def __init__(
        self,
        *,
        min_instances: int | None = None,
        max_instances: int | None = None,
        polling_interval: int | None = None,
        target_utilization_percentage: int | None = None,
        **keys: Any,
    ) -> None:
        del keys
        super().__init__(
            "target_utilization",
            min_instances=min_instances,
            max_instances=max_instances,
            polling_interval=polling_interval,
            target_utilization_percentage=target_utilization_percentage,
        )


class ResourceSettings(Settings):
    """Resources of one replica, in Kubernetes' words."""

    def __init__(self, cpu: str | None = None, memory: str | None = None, gpu: str | None = None) -> None:
        super().__init__(cpu=cpu, memory=memory, gpu=gpu)


class ResourceRequirementsSettings(Settings):
    """What a replica needs, and the most that it may use."""

    def __init__(self, requests: ResourceSettings | None = None, limits: ResourceSettings | None = None) -> None:
        super().__init__(requests=requests, limits=limits)


class EndpointAuthKeys(Attributes):
    """The keys of an endpoint."""

    primary_key: str
    secondary_key: str


class EndpointAuthToken(Attributes):
    """A token of an endpoint. Times in seconds since 1970."""

    access_token: str
    expiry_time_utc: int
    refresh_after_time_utc: int
    token_type: str


# --- endpoints ------------------------------------------------------------------------------------------------------
class OnlineEndpoint(Attributes):
    """An address for models. Its attributes may be changed, and the endpoint created again."""

    name: str
    traffic: dict[str, int]
    mirror_traffic: dict[str, int]
    scoring_uri: str | None
    provisioning_state: str | None

    def __init__(
        self,
        *,
        name: str | None = None,
        tags: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
        auth_mode: str = "key",
        description: str | None = None,
        location: str | None = None,
        traffic: dict[str, int] | None = None,
        mirror_traffic: dict[str, int] | None = None,
        identity: Any = None,
        scoring_uri: str | None = None,
        openapi_uri: str | None = None,
        provisioning_state: str | None = None,
        kind: str | None = None,
        **keys: Any,
    ) -> None:
        super().__init__(
            name=name, tags=dict(tags or {}), properties=dict(properties or {}), auth_mode=auth_mode,
            description=description, location=location, traffic=dict(traffic or {}),
            mirror_traffic=dict(mirror_traffic or {}), identity=identity, scoring_uri=scoring_uri,
            openapi_uri=openapi_uri, provisioning_state=provisioning_state, kind=kind, **keys,
        )  # fmt: skip

    def to_document(self) -> dict[str, Any]:
        """Returns the keys of an endpoint's file that are set."""
        keys = (*KEYS_OF_ENDPOINTS, "compute")
        named = {key: value for key in keys if (value := getattr(self, key, None)) not in (None, {})}
        return {**named, "auth_mode": str(named.get("auth_mode", "key"))}


KEYS_OF_ENDPOINTS = ("name", "tags", "properties", "auth_mode", "description", "traffic", "mirror_traffic")


class ManagedOnlineEndpoint(OnlineEndpoint):
    """An endpoint by Azure's managed schema."""

    def __init__(
        self,
        *,
        name: str | None = None,
        tags: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
        auth_mode: str = "key",
        description: str | None = None,
        location: str | None = None,
        traffic: dict[str, int] | None = None,
        mirror_traffic: dict[str, int] | None = None,
        identity: Any = None,
        kind: str | None = None,
        public_network_access: str | None = None,
        **keys: Any,
    ) -> None:
        super().__init__(
            name=name, tags=tags, properties=properties, auth_mode=auth_mode, description=description,
            location=location, traffic=traffic, mirror_traffic=mirror_traffic, identity=identity,
            kind=kind or "Managed", public_network_access=public_network_access, **keys,
        )  # fmt: skip


class KubernetesOnlineEndpoint(OnlineEndpoint):
    """An endpoint by Azure's Kubernetes schema, which names the compute of its deployments."""

    def __init__(
        self,
        *,
        name: str | None = None,
        tags: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
        auth_mode: str = "key",
        description: str | None = None,
        location: str | None = None,
        traffic: dict[str, int] | None = None,
        mirror_traffic: dict[str, int] | None = None,
        compute: str | None = None,
        identity: Any = None,
        kind: str | None = None,
        **keys: Any,
    ) -> None:
        super().__init__(
            name=name, tags=tags, properties=properties, auth_mode=auth_mode, description=description,
            location=location, traffic=traffic, mirror_traffic=mirror_traffic, identity=identity,
            kind=kind or "K8S", compute=compute, **keys,
        )  # fmt: skip


def endpoint_from_keys(keys: OnlineEndpointKeys) -> OnlineEndpoint:
    """Returns the endpoint of a file as the object that scripts know."""
    document = to_dict(keys)
    return KubernetesOnlineEndpoint(**document) if "compute" in document else ManagedOnlineEndpoint(**document)


def endpoint_from_view(view: EndpointView) -> OnlineEndpoint:
    """Returns an endpoint of the server as the object that scripts know."""
    it = view.definition
    given: dict[str, Any] = {key: getattr(it, key) for key in KEYS_OF_ENDPOINTS}
    given |= {"scoring_uri": view.scoring_uri, "openapi_uri": view.openapi_uri}
    given["provisioning_state"] = PROVISIONING.get(view.state, view.state)
    given["description"] = it.description or None
    given["creation_context"] = SystemData(created_at=view.created_at, created_by="")
    if it.kind == "kubernetes":
        return KubernetesOnlineEndpoint(**given, compute=it.compute or None)
    return ManagedOnlineEndpoint(**given)


def credentials_from(given: EndpointKeys | EndpointToken) -> EndpointAuthKeys | EndpointAuthToken:
    """Returns keys or a token as the object that scripts know."""
    if isinstance(given, EndpointKeys):
        return EndpointAuthKeys(primary_key=given.primary, secondary_key=given.secondary)
    expires = int(given.expires_at.timestamp())
    return EndpointAuthToken(
        access_token=given.access_token,
        expiry_time_utc=expires,
        refresh_after_time_utc=expires,
        token_type="Bearer",  # noqa: S106 - the kind of the token
    )


# --- deployments ----------------------------------------------------------------------------------------------------
class OnlineDeployment(Attributes):
    """A model behind an endpoint. Its attributes may be changed, and the deployment created again."""

    name: str
    endpoint_name: str
    instance_count: int | None
    provisioning_state: str
    model: str | Model | None
    code_configuration: CodeConfiguration | None
    request_settings: OnlineRequestSettings | None
    scale_settings: OnlineScaleSettings | None
    kind = ""

    def __init__(
        self,
        *,
        name: str,
        endpoint_name: str | None = None,
        tags: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
        description: str | None = None,
        model: str | Model | None = None,
        data_collector: Any = None,
        code_configuration: CodeConfiguration | None = None,
        environment: str | Environment | RegisteredEnvironment | None = None,
        app_insights_enabled: bool | None = False,
        scale_settings: OnlineScaleSettings | None = None,
        request_settings: OnlineRequestSettings | None = None,
        liveness_probe: ProbeSettings | None = None,
        readiness_probe: ProbeSettings | None = None,
        environment_variables: dict[str, str] | None = None,
        instance_count: int | None = None,
        instance_type: str | None = None,
        model_mount_path: str | None = None,
        code_path: Path_ | None = None,
        scoring_script: Path_ | None = None,
        **keys: Any,
    ) -> None:
        if code_configuration is None and (code_path is not None or scoring_script is not None):
            code_configuration = CodeConfiguration(code_path, scoring_script)
        super().__init__(
            name=name, endpoint_name=endpoint_name, tags=dict(tags or {}), properties=dict(properties or {}),
            description=description, model=model, data_collector=data_collector,
            code_configuration=code_configuration, environment=environment,
            app_insights_enabled=app_insights_enabled, scale_settings=scale_settings,
            request_settings=request_settings, liveness_probe=liveness_probe, readiness_probe=readiness_probe,
            environment_variables=dict(environment_variables or {}), instance_count=instance_count,
            instance_type=instance_type, model_mount_path=model_mount_path, **keys,
        )  # fmt: skip

    def to_document(self) -> dict[str, Any]:
        """Returns the keys of a deployment's file that are set."""
        named = {key: getattr(self, key, None) for key in KEYS_OF_DEPLOYMENTS}
        named["app_insights_enabled"] = named["app_insights_enabled"] or None
        set_ones = {key: plain_value(value) for key, value in named.items() if value not in (None, {})}
        return {**set_ones, **({"type": self.kind} if self.kind else {})}


KEYS_OF_DEPLOYMENTS = (
    "name", "endpoint_name", "tags", "properties", "description", "model", "data_collector", "code_configuration",
    "environment", "app_insights_enabled", "scale_settings", "request_settings", "liveness_probe", "readiness_probe",
    "environment_variables", "instance_count", "instance_type", "model_mount_path", "resources",
    "egress_public_network_access", "drumbeat",
)  # fmt: skip


class ManagedOnlineDeployment(OnlineDeployment):
    """A deployment by Azure's managed schema."""

    kind = "managed"


class KubernetesOnlineDeployment(OnlineDeployment):
    """A deployment by Azure's Kubernetes schema. Its `resources` say what a replica needs."""

    kind = "kubernetes"


def plain_value(value: Any) -> Any:
    """Returns an attribute as a file has it."""
    if isinstance(value, Model):
        return value.id if value.creation_context is not None else value.to_document()
    if isinstance(value, RegisteredEnvironment):
        return value.reference
    if isinstance(value, FrozenModel):
        return to_dict(value)
    if isinstance(value, ResourceRequirementsSettings):
        return {key: _amounts(one) for key, one in value.to_document().items()}
    return value.to_document() if isinstance(value, Settings) else value


def _amounts(one: ResourceSettings) -> dict[str, Any]:
    keys = one.to_document()
    return {"nvidia.com/gpu" if key == "gpu" else key: str(value) for key, value in keys.items()}


_SETTINGS: dict[str, type[Settings]] = {
    "request_settings": OnlineRequestSettings, "liveness_probe": ProbeSettings, "readiness_probe": ProbeSettings,
}  # fmt: skip


def deployment_parts(document: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Returns a deployment's document with its code, its model and its environment as objects.

    base: the folder that its paths count from.
    """
    given = dict(document)
    if code := given.get("code_configuration"):
        given["code_configuration"] = CodeConfiguration(**{**code, **with_absolute_paths({"code": code["code"]}, base)})
    if isinstance(given.get("model"), dict):
        table = cast("dict[str, Any]", given["model"])
        path = with_absolute_paths({"inputs": {"it": {"path": table["path"]}}}, base)["inputs"]["it"]["path"]
        given["model"] = Model(**{**table, "path": path})
    if isinstance(given.get("environment"), dict):
        given["environment"] = Environment.made(environment_with_absolute_paths(given["environment"], base))
    return given


def deployment_from_keys(keys: OnlineDeploymentKeys, base: Path) -> OnlineDeployment:
    """Returns the deployment of a file as the object that scripts know. base: the folder that its paths count from."""
    from drumbeat.client.environment_files import with_environments

    document = with_environments(to_dict(keys), base)
    given: dict[str, Any] = {key: value for key, value in document.items() if key != "type"}
    given = deployment_parts(given, base)
    for key, cls in _SETTINGS.items():
        if key in given:
            given[key] = cls(**given[key])
    if "scale_settings" in given:
        given["scale_settings"] = _scaling(given["scale_settings"])
    if "resources" in given:
        parts = cast("Mapping[str, dict[str, str]]", given["resources"])
        given["resources"] = ResourceRequirementsSettings(**{key: _resources(one) for key, one in parts.items()})
    return (KubernetesOnlineDeployment if document.get("type") == "kubernetes" else ManagedOnlineDeployment)(**given)


def _scaling(keys: Mapping[str, Any]) -> OnlineScaleSettings:
    is_default = keys.get("type") == "default"
    return DefaultScaleSettings() if is_default else TargetUtilizationScaleSettings(**keys)


def _resources(keys: Mapping[str, str]) -> ResourceSettings:
    return ResourceSettings(**{"gpu" if key == "nvidia.com/gpu" else key: value for key, value in keys.items()})


def deployment_from_view(view: DeploymentView) -> OnlineDeployment:
    """Returns a deployment of the server as the object that scripts know."""
    it = view.definition
    scale = asdict(it.scale_settings)
    scale["polling_interval"] = scale.pop("polling_interval_s")
    is_kubernetes = it.requests != definitions.ResourceAmounts() or it.limits != definitions.ResourceAmounts()
    made = (KubernetesOnlineDeployment if is_kubernetes else ManagedOnlineDeployment)(
        name=it.name,
        endpoint_name=it.endpoint_name,
        tags=it.tags,
        properties=it.properties,
        description=it.description or None,
        model=it.model.path if it.model else None,
        environment=it.environment,
        scale_settings=_scaling(scale),
        request_settings=OnlineRequestSettings(**asdict(it.request_settings)),
        liveness_probe=ProbeSettings(**asdict(it.liveness_probe)),
        readiness_probe=ProbeSettings(**asdict(it.readiness_probe)),
        environment_variables=it.environment_variables,
        instance_count=it.instance_count,
        instance_type=it.instance_type or None,
        model_mount_path=it.model_mount_path or None,
        provisioning_state=PROVISIONING.get(view.state, view.state),
        creation_context=SystemData(created_at=view.created_at, created_by=""),
    )
    made.__dict__["_view"] = view
    return made


def _table(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    return document.get(key) or {}


def changed_deployment(entity: OnlineDeployment) -> definitions.OnlineDeployment | None:
    """Returns the definition of a deployment that the server gave and a script changed; None = a script made it.

    Raises RefusedError for changes that need files of this machine.
    """
    view: DeploymentView | None = vars(entity).get("_view")
    if view is None:
        return None
    it, document = view.definition, entity.to_document()
    if entity.__dict__["code_configuration"] is not None or document.get("environment") != it.environment:
        what = f"deployment {it.name} came from the server, and its code and environment are only kept there"
        raise RefusedError(what, fix=f"Make a new {type(entity).__name__} with all of its settings.")
    scale = dict(document.get("scale_settings") or {})
    if "polling_interval" in scale:
        scale["polling_interval_s"] = scale.pop("polling_interval")
    model = document.get("model")
    if isinstance(model, dict):
        raise RefusedError("a model that isn't registered is given to a new deployment", fix="Register the model.")
    changed = it.model if it.model and it.model.path == model else definitions.DeployedModel(str(model))
    return replace(
        it,
        tags=document.get("tags") or {},
        properties=document.get("properties") or {},
        description=document.get("description") or "",
        model=changed if model else None,
        scale_settings=definitions.ScaleSettings(**scale),
        request_settings=definitions.RequestSettings(**_table(document, "request_settings")),
        liveness_probe=definitions.ProbeSettings(**_table(document, "liveness_probe")),
        readiness_probe=definitions.ProbeSettings(**_table(document, "readiness_probe")),
        environment_variables=document.get("environment_variables") or {},
        instance_count=document.get("instance_count") or 1,
        instance_type=document.get("instance_type") or "",
    )
