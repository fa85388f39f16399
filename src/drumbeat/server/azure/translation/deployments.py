"""Deployments of online endpoints: bodies of Azure's API as documents of the dialect, and the other way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drumbeat.model.endpoints import DeployedModel, OnlineDeployment, ProbeSettings, ResourceAmounts
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import Workspace, asset_id, without_nulls
from drumbeat.server.azure.translation.job_answers import environment_id
from drumbeat.server.azure.translation.request_parts import Assets, data_path, table, text, texts

Table = dict[str, Any]
_PROBE = ("initial_delay", "period", "timeout")


def deployment_document(
    endpoint: str, name: str, body: Mapping[str, Any], environment: str | Table | None, model: str | None
) -> Table:
    """Returns the document of a deployment. environment, model: what its ids mean. Raises RefusedError."""
    given = words.snake_keys(table(body.get("properties"), "properties"))
    code = words.snake_keys(given.get("code_configuration"))
    is_kubernetes = words.folded(given.get("endpoint_compute_type")) == "kubernetes"
    made: Table = {
        "name": name,
        "endpoint_name": endpoint,
        "type": "kubernetes" if is_kubernetes else "managed",
        "model": model if model is None or _is_name(model) else {"path": model},
        # The content is a snapshot by its digest: the folder of the document stands for it.
        "code_configuration": {"code": ".", "scoring_script": code.get("scoring_script")} if code else None,
        "environment": environment,
        "environment_variables": texts(given.get("environment_variables"), "environmentVariables"),
        "instance_type": text(given.get("instance_type"), "instanceType"),
        "instance_count": words.mapping(body.get("sku")).get("capacity"),
        "scale_settings": _scale_settings(given.get("scale_settings")),
        "request_settings": _request_settings(given.get("request_settings")),
        "liveness_probe": _probe(given.get("liveness_probe"), "livenessProbe"),
        "readiness_probe": _probe(given.get("readiness_probe"), "readinessProbe"),
        "model_mount_path": text(given.get("model_mount_path"), "modelMountPath"),
        "description": text(given.get("description"), "description"),
        "tags": texts(body.get("tags"), "tags"),
        "properties": texts(given.get("properties"), "properties"),
        "app_insights_enabled": given.get("app_insights_enabled"),
        "data_collector": given.get("data_collector"),
    }
    if is_kubernetes:
        made["resources"] = _amounts(given.get("container_resource_requirements"))
    return without_nulls(made)


def _is_name(path: str) -> bool:
    return path.startswith("azureml:") and not path.startswith("azureml://")


def sent_model(value: object, assets: Assets) -> DeployedModel | None:
    """Returns the model of a body: a version of the registry, or an address. Raises RefusedError."""
    given = words.snake_keys(value).get("asset_id", value)
    address = text(given, "model")
    if address is None:
        return None
    reference_id = asset_id(address)
    return DeployedModel(reference_id.reference if reference_id else data_path(address, assets))


def deployment_properties(definition: OnlineDeployment, workspace: Workspace, code_id: str | None) -> Table:
    """Returns the properties of a deployment."""
    scale = definition.scale_settings
    limits = definition.request_settings
    code = {"codeId": code_id, "scoringScript": definition.scoring_script} if code_id else None
    if scale.type == "default":
        scaling: Table = {"scaleType": "Default"}
    else:
        scaling = {
            "scaleType": "TargetUtilization", "minInstances": scale.min_instances,
            "maxInstances": scale.max_instances, "pollingInterval": words.duration(scale.polling_interval_s),
            "targetUtilizationPercentage": scale.target_utilization_percentage,
        }  # fmt: skip
    requests, most = _shown_amounts(definition.requests), _shown_amounts(definition.limits)
    return {
        "codeConfiguration": code,
        "environmentId": environment_id(definition.environment, workspace),
        "environmentVariables": definition.environment_variables,
        "model": model_id(definition.model.path, workspace) if definition.model else None,
        "modelMountPath": definition.model_mount_path or None,
        "instanceType": definition.instance_type or None,
        "scaleSettings": scaling,
        "requestSettings": {
            "maxConcurrentRequestsPerInstance": limits.max_concurrent_requests_per_instance,
            "requestTimeout": words.duration(limits.request_timeout_ms / 1000),
            "maxQueueWait": words.duration(
                (limits.request_timeout_ms if limits.max_queue_wait_ms is None else limits.max_queue_wait_ms) / 1000
            ),
        },
        "livenessProbe": _shown_probe(definition.liveness_probe),
        "readinessProbe": _shown_probe(definition.readiness_probe),
        "containerResourceRequirements": {
            "containerResourceRequests": requests, "containerResourceLimits": most,
        } if requests or most else None,
        "description": definition.description or None,
        "properties": definition.properties,
        "appInsightsEnabled": False,
        "egressPublicNetworkAccess": "Enabled",
    }  # fmt: skip


def model_id(path: str, workspace: Workspace) -> str:
    """Returns the id of a model: of a version in the registry; other addresses as they are."""
    name, _, version = path.removeprefix("azureml:").partition(":")
    return workspace.asset("models", name, version) if _is_name(path) and version else path


def code_id(digest: str | None, workspace: Workspace) -> str | None:
    """Returns the id that a deployment's code is shown by, which no upload has; None = it has no code."""
    return workspace.asset("codes", digest, "1") if digest else None


# --- parts -----------------------------------------------------------------------------------------------------------
def _scale_settings(value: object) -> Table | None:
    given = words.snake_keys(value)
    if not given:
        return None
    kind = str(given.pop("scale_type", "default"))
    if words.folded(kind) == "default":
        return {"type": "default"}
    interval = words.seconds(given.pop("polling_interval", None), "scaleSettings.pollingInterval")
    return without_nulls({"type": words.snake(kind), **given, "polling_interval": interval})


def _request_settings(value: object) -> Table | None:
    given = words.snake_keys(value)
    times = {
        f"{key}_ms": _milliseconds(given.pop(key, None), f"requestSettings.{words.camel(key)}")
        for key in ("request_timeout", "max_queue_wait")
    }
    return without_nulls({**given, **times}) or None


def _milliseconds(value: object, where: str) -> int | None:
    seconds = words.seconds(value, where)
    return None if seconds is None else round(seconds * 1000)


def _probe(value: object, where: str) -> Table | None:
    given = words.snake_keys(value)
    times = {key: words.seconds(given.get(key), f"{where}.{words.camel(key)}") for key in _PROBE}
    return without_nulls({**given, **times}) or None


def _shown_probe(probe: ProbeSettings) -> Table:
    times = {words.camel(key): words.duration(getattr(probe, key)) for key in _PROBE}
    return {**times, "successThreshold": probe.success_threshold, "failureThreshold": probe.failure_threshold}


def _amounts(value: object) -> Table | None:
    given = words.snake_keys(value)
    sides = {"requests": given.get("container_resource_requests"), "limits": given.get("container_resource_limits")}
    made = {
        side: {("nvidia.com/gpu" if key == "gpu" else key): one for key, one in words.snake_keys(amounts).items()}
        for side, amounts in sides.items()
        if amounts
    }
    return made or None


def _shown_amounts(amounts: ResourceAmounts) -> Table | None:
    return {
        key: one for key, one in (("cpu", amounts.cpu), ("memory", amounts.memory), ("gpu", amounts.gpu)) if one
    } or None
