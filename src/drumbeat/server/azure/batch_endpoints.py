"""Batch endpoints and their deployments, and the jobs that invocations start."""

from __future__ import annotations

import secrets
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from drumbeat import jobfile
from drumbeat.jobfile.batch.default_deployment import choose_deployment, require_not_default
from drumbeat.jobfile.batch.deployments import BATCH_DEPLOYMENT as FILE
from drumbeat.jobfile.batch.deployments import ModelBatchDeployment
from drumbeat.jobfile.batch.scoring_jobs import (
    DEPLOYMENT_TAG,
    ENDPOINT_TAG,
    BatchInvocation,
    component_document,
    job_document,
    last_part,
    runner_settings,
)
from drumbeat.jobfile.data.paths import AssetReference, reference_to
from drumbeat.jobfile.reading.loader import model_from
from drumbeat.model.api.requests import JobRequest, StepParts
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.resources.batch import BATCH_DEPLOYMENT, BATCH_ENDPOINT
from drumbeat.resources.component import COMPONENT
from drumbeat.server.azure.call import Answer, AzureCall, Table, resource
from drumbeat.server.azure.jobs import answer as job_answer
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import asset_id, compute_name, without_nulls
from drumbeat.server.azure.translation.deployments import code_id, model_id, sent_model
from drumbeat.server.azure.translation.job_answers import environment_id, system_data
from drumbeat.server.azure.translation.request_parts import code_digest, environment, job_input, table, text, texts
from drumbeat.server.azure.workspaces import LOCATION, SINCE, long_running
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.resources.components import registered

if TYPE_CHECKING:
    from drumbeat.core.pipelines.registered_components import RegisteredComponent
    from drumbeat.model.api.batch import BatchDeploymentView, BatchEndpointView

CHOSEN = "azureml-model-deployment"
REQUEST_ID = "repeatability_request-id"
"""Headers of an invocation: the deployment, and what its repetitions have in common."""
MAX_JOBS = 1000


# --- endpoints -------------------------------------------------------------------------------------------------------
def list_endpoints(call: AzureCall) -> Answer:
    """Lists the endpoints."""
    return Answer({"value": [_endpoint(call, one) for one in call.control.catalogs.service(BATCH_ENDPOINT).list()]})


def show(call: AzureCall) -> Answer:
    """Shows an endpoint."""
    return Answer(_endpoint(call, _endpoint_view(call)))


def _endpoint_view(call: AzureCall) -> BatchEndpointView:
    return call.control.catalogs.service(BATCH_ENDPOINT).show(call.name("an endpoint"))


def put(call: AzureCall) -> Answer:
    """Creates an endpoint, or replaces the one of its name. Raises NotFoundError for a default that isn't there."""
    name, given = call.name("an endpoint"), words.snake_keys(call.properties)
    default = text(words.snake_keys(given.get("defaults")).get("deployment_name"), "defaults.deploymentName")
    if default:
        _deployment_view(call, default)
    mode = text(given.get("auth_mode"), "authMode")
    document = {
        "name": name,
        "auth_mode": "aad_token" if mode and words.folded(mode) == "aadtoken" else mode,
        "defaults": {"deployment_name": default} if default else None,
        "description": text(given.get("description"), "description"),
        "tags": texts(call.body.get("tags"), "tags"),
        "properties": texts(given.get("properties"), "properties"),
    }
    made, _ = call.control.catalogs.service(BATCH_ENDPOINT).create(without_nulls(document), "endpoint")
    return long_running(call, _endpoint(call, made))


def delete(call: AzureCall) -> Answer:
    """Deletes an endpoint with its deployments; its jobs stay."""
    name = call.name("an endpoint")
    _endpoint_view(call)
    for one in _deployments(call, name):
        call.control.catalogs.service(BATCH_DEPLOYMENT).delete(f"{name}.{one.name}")
    call.control.catalogs.service(BATCH_ENDPOINT).delete(name)
    return Answer(status=200)


def _endpoint(call: AzureCall, view: BatchEndpointView) -> Table:
    properties = {
        "authMode": "AADToken",
        "defaults": {"deploymentName": view.default_deployment or None},
        "description": view.description or None,
        "properties": words.mapping(view.document.get("properties")),
        "scoringUri": f"{call.base}{call.workspace.path}/batchEndpoints/{view.name}/jobs",
        "swaggerUri": None,
        "provisioningState": "Succeeded",
    }
    body = resource(call, f"batchEndpoints/{view.name}", properties, system_data(SINCE))
    return {**body, "location": LOCATION, "tags": view.tags}


# --- deployments -----------------------------------------------------------------------------------------------------
def _deployments(call: AzureCall, endpoint: str) -> list[BatchDeploymentView]:
    return [one for one in call.control.catalogs.service(BATCH_DEPLOYMENT).list() if one.endpoint == endpoint]


def _deployment_view(call: AzureCall, name: str) -> BatchDeploymentView:
    return call.control.catalogs.service(BATCH_DEPLOYMENT).show(f"{call.name('an endpoint')}.{name}")


def list_deployments(call: AzureCall) -> Answer:
    """Lists the deployments of an endpoint."""
    _endpoint_view(call)
    return Answer({"value": [_deployment(call, one) for one in _deployments(call, call.name("an endpoint"))]})


def show_deployment(call: AzureCall) -> Answer:
    """Shows a deployment."""
    return Answer(_deployment(call, _deployment_view(call, call.name("a deployment", "deployment"))))


def put_deployment(call: AzureCall) -> Answer:
    """Creates a deployment, or replaces the one of its name.

    What a client has read from here, it sends back with the ids that it was told: they mean what the deployment has.
    """
    endpoint, name = call.name("an endpoint"), call.name("a deployment", "deployment")
    _endpoint_view(call)
    given = words.snake_keys(call.properties)
    pipeline = words.snake_keys(given.get("deployment_configuration"))
    made = _pipeline(call, pipeline) if pipeline else _model(call, endpoint, name, given)
    head = {
        "name": f"{endpoint}.{name}",
        "description": text(given.get("description"), "description"),
        "tags": texts(call.body.get("tags"), "tags"),
    }
    document = {key: value for key, value in {**head, **made}.items() if value not in (None, {}, "")}
    view, _ = call.control.catalogs.service(BATCH_DEPLOYMENT).create(document, "deployment")
    return long_running(call, _deployment(call, view))


def _pipeline(call: AzureCall, given: Table) -> Table:
    address = text(words.snake_keys(given.get("component_id")).get("asset_id"), "componentId")
    reference = asset_id(address) if address else None
    if reference is None or reference.kind != "components":
        raise RefusedError("the deployment names no component", where="deploymentConfiguration.componentId")
    kept = call.catalog.component(reference.name, reference.version)
    if not kept.reference:
        what = "the component of a deployment is registered by a name"
        raise RefusedError(what, where="component", fix="Create it first: components.create_or_update(...).")
    allowed = ("default_compute", "default_datastore", "continue_on_step_failure", "force_rerun")
    settings: Table = {key: one for key, one in words.mapping(given.get("settings")).items() if key in allowed}
    if compute := settings.get("default_compute"):
        settings["default_compute"] = compute_name(str(compute))
    for key in ("continue_on_step_failure", "force_rerun"):  # Settings arrive as texts.
        if isinstance(settings.get(key), str):
            settings[key] = words.folded(settings[key]) == "true"
    return {"type": "pipeline", "component": kept.reference, "pipeline_settings": without_nulls(settings)}


def _model(call: AzureCall, endpoint: str, name: str, given: Table) -> Table:
    before = None
    with suppress(NotFoundError):
        before = _component_of(call, _deployment_view(call, name))
    code = words.snake_keys(given.get("code_configuration"))
    sent_code, written_id = text(code.get("code_id"), "codeId"), text(given.get("environment_id"), "environmentId")
    kept_code = before.parts[""].code if before and "" in before.parts else None
    is_kept_code = kept_code and sent_code == code_id(kept_code, call.workspace)
    digest = kept_code if is_kept_code else code_digest(sent_code, call.catalog)
    kept_environment = before.document.get("environment") if before else None
    is_kept = written_id is not None and written_id == environment_id(kept_environment, call.workspace)
    chosen = kept_environment if is_kept else environment(written_id, call.catalog)
    model = sent_model(given.get("model"), call.catalog)
    retries = words.snake_keys(given.get("retry_settings"))
    timeout = words.seconds(retries.get("timeout"), "retrySettings.timeout")
    nodes = words.snake_keys(given.get("resources"))
    document = {
        "name": name,
        "endpoint_name": endpoint,
        "model": model.path if model else None,
        # The content is a snapshot by its digest: the folder of the document stands for it.
        "code_configuration": {"code": ".", "scoring_script": code.get("scoring_script")} if code else None,
        "environment": chosen,
        "compute": compute_name(text(given.get("compute"), "compute")),
        "resources": without_nulls({key: nodes.get(key) for key in ("instance_count", "instance_type")}) or None,
        "error_threshold": given.get("error_threshold"),
        "logging_level": given.get("logging_level"),
        "max_concurrency_per_instance": given.get("max_concurrency_per_instance"),
        "mini_batch_size": given.get("mini_batch_size"),
        "output_action": words.snake(str(given["output_action"])) if given.get("output_action") else None,
        "output_file_name": given.get("output_file_name"),
        "retry_settings": without_nulls({"max_retries": retries.get("max_retries"), "timeout": timeout}) or None,
        "environment_variables": texts(given.get("environment_variables"), "environmentVariables"),
    }
    keys = cast("ModelBatchDeployment", model_from(without_nulls(document), FILE, "deployment"))
    port, folder = _model_port(call, keys, model.path) if model else (None, "")
    component = {key: one for key, one in component_document(keys, port, folder).items() if key != "code"}
    parts = {"": StepParts(digest)} if digest else {}
    made, _ = call.control.catalogs.components.create(component, "deployment", parts=parts)
    return {
        "type": "model",
        "component": f"azureml:{made.name}:{made.version}",
        "compute": keys.compute,
        "instance_count": keys.resources.instance_count,
        "model": model.path if model else None,
        "settings": runner_settings(keys),
        "output_file_name": keys.setting("output_file_name", "predictions.csv"),
    }


def _model_port(call: AzureCall, keys: ModelBatchDeployment, path: str) -> tuple[Table, str]:
    """Returns the input that the model is, and the name of its file or folder. Raises NotFoundError, RefusedError."""
    reference = reference_to(path, "model")
    if not isinstance(reference, AssetReference):
        return {"type": "custom_model" if keys.code_configuration else "mlflow_model", "path": path}, last_part(path)
    label = f"@{reference.label}" if reference.label else ""
    version = call.control.catalogs.models.show(reference.name, reference.version or label)
    if keys.code_configuration is None and version.type != "mlflow_model":
        what = f"model {version.name} is a {version.type}, and only an mlflow_model scores without a script"
        raise RefusedError(what, where="model", fix="Give the deployment a code_configuration.")
    return {"type": version.type, "path": f"azureml:{version.name}:{version.version}"}, last_part(version.uri)


def _component_of(call: AzureCall, view: BatchDeploymentView) -> RegisteredComponent:
    """Raises NotFoundError."""
    name, _, version = view.component.removeprefix("azureml:").partition(":")
    return registered(call.control.store.resource(COMPONENT.name, name, version))


def delete_deployment(call: AzureCall) -> Answer:
    """Deletes a deployment; its jobs stay. Raises ConflictError for the default one beside others."""
    endpoint, name = call.name("an endpoint"), call.name("a deployment", "deployment")
    require_not_default(_endpoint_view(call), _deployments(call, endpoint), name)
    call.control.catalogs.service(BATCH_DEPLOYMENT).delete(f"{endpoint}.{name}")
    return Answer(status=200)


def _deployment(call: AzureCall, view: BatchDeploymentView) -> Table:
    where, settings = call.workspace, view.settings
    component = _component_of(call, view)
    properties: Table = {
        "description": view.description or None, "properties": {}, "provisioningState": "Succeeded",
        "compute": f"{where.path}/computes/{view.compute}" if view.compute else None,
    }  # fmt: skip
    if view.type == "pipeline":
        properties["deploymentConfiguration"] = {
            "deploymentConfigurationType": "PipelineComponent",
            "componentId": _reference(where.asset("components", component.name, component.version)),
            "settings": view.pipeline_settings,
        }  # fmt: skip
    else:
        code = component.parts[""].code if "" in component.parts else None
        script = shlex.split(str(component.document["command"]).partition(" -- ")[2])
        properties |= {
            "model": _reference(model_id(view.model, where)) if view.model else None,
            "codeConfiguration": {"codeId": code_id(code, where), "scoringScript": script[0]} if code else None,
            "environmentId": environment_id(component.document.get("environment"), where),
            "environmentVariables": words.mapping(component.document.get("environment_variables")),
            "resources": {"instanceCount": view.instance_count, "properties": {}},
            "miniBatchSize": settings.get("mini_batch_size"),
            "maxConcurrencyPerInstance": settings.get("workers"),
            "errorThreshold": settings.get("error_threshold"),
            "loggingLevel": str(settings.get("logging_level", "INFO")).capitalize(),
            "outputAction": "AppendRow" if settings.get("is_appending", True) else "SummaryOnly",
            "outputFileName": view.output_file_name,
            "retrySettings": {
                "maxRetries": settings.get("max_retries"), "timeout": words.duration(settings.get("timeout_s")),
            },
        }  # fmt: skip
    path = f"batchEndpoints/{view.endpoint}/deployments/{view.name}"
    return {**resource(call, path, properties, system_data(SINCE)), "location": LOCATION, "tags": view.tags}


def _reference(address: str) -> Table:
    return {"referenceType": "Id", "assetId": address}


# --- jobs ------------------------------------------------------------------------------------------------------------
def invoke(call: AzureCall) -> Answer:
    """Starts the job of an invocation. The same request again starts no other one."""
    endpoint, given = call.name("an endpoint"), words.snake_keys(call.properties)
    chosen = _chosen(call, call.headers.get(CHOSEN) or "")
    inputs = table(given.get("input_data"), "inputData")
    outputs = list(table(given.get("output_data"), "outputData").values())
    retries = words.snake_keys(given.get("retry_settings"))
    if retries or given.get("error_threshold") is not None:
        raise RefusedError("thresholds and retries are the deployment's", fix="Change the deployment.")
    asked = BatchInvocation(
        deployment=chosen.name,
        inputs={key: job_input(one, f"inputData.{key}", call.catalog) for key, one in inputs.items()},
        output_path=text(words.snake_keys(outputs[0]).get("uri"), "outputData") or "" if outputs else "",
        output_file_name=text(given.get("output_file_name"), "outputFileName") or "",
        job_name=text(given.get("name"), "name") or "",
        mini_batch_size=_size(given.get("mini_batch_size")),
        experiment=text(words.snake_keys(given.get("properties")).get("experiment_name"), "experimentName") or "",
    )
    document = without_nulls({**job_document(chosen, asked), "name": asked.job_name or None})
    jobfile.from_dict(document, "invocation")  # Raises every problem at once.
    repeated = call.headers.get(REQUEST_ID) or secrets.token_hex(8)
    request = JobRequest(
        document, key=f"azure-batch/{endpoint}/{repeated[:100]}", source="invocation",
        experiment=document["experiment_name"],
    )  # fmt: skip
    record, is_new = call.control.jobs.submit(request, by=call.principal)
    return job_answer(call, record, 201 if is_new else 200)


def _size(value: object) -> int:
    """Returns the size of a mini-batch, 0 = none is given. Raises RefusedError."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value or 0
    raise RefusedError(f"{str(value)[:40]!a} isn't a number of files", where="miniBatchSize")


def _chosen(call: AzureCall, name: str) -> BatchDeploymentView:
    """Returns the deployment that an invocation runs. Raises NotFoundError, SpecError.

    1.35 also sends the name that an earlier invocation of another endpoint had: one that isn't here doesn't count.
    """
    endpoint, deployments = _endpoint_view(call), _deployments(call, call.name("an endpoint"))
    return choose_deployment(endpoint, deployments, name if name in {one.name for one in deployments} else "")


def list_jobs(call: AzureCall) -> Answer:
    """Lists the jobs of an endpoint's invocations, or of one deployment's, newest first."""
    endpoint, deployment = call.name("an endpoint"), call.parts.get("deployment")
    _endpoint_view(call)
    records = call.control.store.jobs(JobFilter(is_archived=None, parent="", text=endpoint, limit=MAX_JOBS))
    own = [one for one in records if one.job.tags.get(ENDPOINT_TAG) == endpoint and DEPLOYMENT_TAG in one.job.tags]
    chosen = [one for one in own if deployment in (None, one.job.tags[DEPLOYMENT_TAG])]
    return Answer({"value": [job_answer(call, one).body for one in chosen]})
