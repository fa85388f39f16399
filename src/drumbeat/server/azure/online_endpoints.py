"""Online endpoints and their deployments, as the service of endpoints keeps them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from drumbeat.jobfile.endpoints.deployment_keys import deployment_definition, deployment_from
from drumbeat.jobfile.endpoints.endpoint_keys import endpoint_definition, endpoint_from
from drumbeat.model import scoring_tokens
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.endpoints import KeyType
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.server.azure.call import Answer, AzureCall, Table, resource
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import without_nulls
from drumbeat.server.azure.translation.deployments import (
    code_id,
    deployment_document,
    deployment_properties,
    sent_model,
)
from drumbeat.server.azure.translation.job_answers import environment_id, system_data
from drumbeat.server.azure.translation.request_parts import code_digest, environment, text, texts
from drumbeat.server.azure.workspaces import LOCATION

if TYPE_CHECKING:
    from drumbeat.model.api.endpoints import DeploymentView, EndpointState, EndpointView

STATES: dict[EndpointState, str] = {
    "creating": "Creating", "updating": "Updating", "ready": "Succeeded", "failed": "Failed", "deleting": "Deleting",
}  # fmt: skip
AUTH_MODES = {"key": "Key", "aml_token": "AMLToken"}
KINDS = {"managed": "Managed", "kubernetes": "Kubernetes"}
KEY_TYPES: dict[str, KeyType] = {"primary": "primary", "secondary": "secondary"}
MAX_LINES, DEFAULT_LINES = 100_000, 50
NO_LOGS_OF = "storageinitializer"
"""Azure's container that fetches a model. Here the replica's own node does, and its lines are the replica's."""


# --- endpoints -------------------------------------------------------------------------------------------------------
def list_endpoints(call: AzureCall) -> Answer:
    """Lists the endpoints."""
    return Answer({"value": [_endpoint(call, one) for one in call.control.endpoints.list()]})


def show(call: AzureCall) -> Answer:
    """Shows an endpoint."""
    return Answer(_endpoint(call, call.control.endpoints.show(call.name("an endpoint"))))


def put(call: AzureCall) -> Answer:
    """Creates an endpoint, or changes the one of its name."""
    given = words.snake_keys(call.properties)
    document = {
        "name": call.name("an endpoint"),
        "auth_mode": text(given.get("auth_mode"), "authMode"),
        "compute": text(given.get("compute"), "compute"),
        "traffic": given.get("traffic"),
        "mirror_traffic": given.get("mirror_traffic"),
        "description": text(given.get("description"), "description"),
        "tags": texts(call.body.get("tags"), "tags"),
        "properties": texts(given.get("properties"), "properties"),
    }
    keys = endpoint_from(without_nulls(document))
    view, is_new = call.control.endpoints.put(endpoint_definition(keys), call.principal)
    return _operation(call, _endpoint(call, view), _path(call), is_new=is_new)


def delete(call: AzureCall) -> Answer:
    """Deletes an endpoint with its deployments."""
    call.control.endpoints.delete(call.name("an endpoint"), call.principal)
    return _deletion(call, _path(call))


def list_keys(call: AzureCall) -> Answer:
    """Returns the keys of an endpoint."""
    keys = call.control.endpoints.keys(call.name("an endpoint"), call.principal)
    return Answer({"primaryKey": keys.primary, "secondaryKey": keys.secondary}, headers={"Cache-Control": "no-store"})


def renew_key(call: AzureCall) -> Answer:
    """Replaces a key by a new one. Keys that users choose aren't taken."""
    kind = str(call.body.get("keyType") or "")
    if words.folded(kind) not in KEY_TYPES:
        raise RefusedError(f"{kind[:40]!a} is no type of key", where="keyType", fix="Write Primary or Secondary.")
    name, key_type = call.name("an endpoint"), KEY_TYPES[words.folded(kind)]
    given = call.body.get("keyValue")  # Clients send the key that is to be replaced.
    if given and given != getattr(call.control.endpoints.keys(name, call.principal), key_type):
        raise RefusedError("a key is chosen by the server", where="keyValue", fix="Leave the value out.")
    call.control.endpoints.renew_key(name, key_type, call.principal)
    return Answer(status=200)


def token(call: AzureCall) -> Answer:
    """Returns a token of an endpoint for an hour."""
    made = call.control.endpoints.token(call.name("an endpoint"))
    refresh = made.expires_at - timedelta(seconds=scoring_tokens.LIFETIME_S / 2)
    body = {
        "accessToken": made.access_token, "expiryTimeUtc": int(made.expires_at.timestamp()),
        "refreshAfterTimeUtc": int(refresh.timestamp()), "tokenType": "Bearer",
    }  # fmt: skip
    return Answer(body, headers={"Cache-Control": "no-store"})


def operation(call: AzureCall) -> Answer:
    """How far an endpoint is."""
    view = call.control.endpoints.show(call.name("an endpoint"))
    return _progress(view.state, view.sentence)


def deletion(call: AzureCall) -> Answer:
    """How far a deletion is: 202 while the endpoint, or the deployment, is there."""
    name = call.name("an endpoint")
    try:
        if "deployment" in call.parts:
            call.control.endpoints.deployment(name, call.name("a deployment", "deployment"))
        else:
            call.control.endpoints.show(name)
    except NotFoundError:
        return Answer(status=200)
    return _deletion(call, _path(call))


def _path(call: AzureCall) -> str:
    own = f"onlineEndpoints/{call.name('an endpoint')}"
    return f"{own}/deployments/{call.name('a deployment', 'deployment')}" if "deployment" in call.parts else own


def _operation(call: AzureCall, body: Table, path: str, *, is_new: bool) -> Answer:
    """An answer with the address that tells how far a change is."""
    url = f"{call.base}{call.workspace.path}/{path}/operation?api-version=2024-01-01"
    return Answer(body, 201 if is_new else 200, {"Azure-AsyncOperation": url, "Location": url, "Retry-After": "1"})


def _deletion(call: AzureCall, path: str) -> Answer:
    url = f"{call.base}{call.workspace.path}/{path}/deletion"
    return Answer(status=202, headers={"Location": url, "Retry-After": "1"})


def _progress(state: EndpointState, sentence: str) -> Answer:
    if state == "failed":
        return Answer({"status": "Failed", "error": {"code": "UserError", "message": sentence}})
    return Answer({"status": "Succeeded" if state == "ready" else "InProgress"}, headers={"Retry-After": "1"})


def _endpoint(call: AzureCall, view: EndpointView) -> Table:
    definition = view.definition
    compute = f"{call.workspace.path}/computes/{definition.compute}" if definition.compute else None
    properties = {
        "authMode": AUTH_MODES[definition.auth_mode],
        "traffic": definition.traffic,
        "mirrorTraffic": definition.mirror_traffic,
        "compute": compute,
        "description": definition.description or None,
        "properties": definition.properties,
        "scoringUri": view.scoring_uri,
        "swaggerUri": view.openapi_uri,
        "provisioningState": STATES[view.state],
        "publicNetworkAccess": "Disabled",
    }
    created = words.moment(view.created_at) or ""
    body = resource(call, f"onlineEndpoints/{definition.name}", properties, system_data(created))
    return {
        **body, "location": LOCATION, "kind": KINDS[definition.kind], "tags": definition.tags,
        "identity": {"type": "SystemAssigned"},
    }  # fmt: skip


# --- deployments -----------------------------------------------------------------------------------------------------
def list_deployments(call: AzureCall) -> Answer:
    """Lists the deployments of an endpoint."""
    views = call.control.endpoints.deployments(call.name("an endpoint"))
    return Answer({"value": [_deployment(call, one) for one in views]})


def show_deployment(call: AzureCall) -> Answer:
    """Shows a deployment."""
    return Answer(_deployment(call, _view(call)))


def _view(call: AzureCall) -> DeploymentView:
    return call.control.endpoints.deployment(call.name("an endpoint"), call.name("a deployment", "deployment"))


def put_deployment(call: AzureCall) -> Answer:
    """Creates a deployment, or changes the one of its name.

    What a client has read from here, it sends back with the ids that it was told: they mean what the deployment has.
    """
    endpoint, name = call.name("an endpoint"), call.name("a deployment", "deployment")
    call.control.endpoints.show(endpoint)
    try:
        before = _view(call).definition
    except NotFoundError:
        before = None
    sent = words.snake_keys(call.properties)
    code = words.snake_keys(sent.get("code_configuration"))
    if before and code.get("code_id") == code_id(before.code, call.workspace):
        digest = before.code
    else:
        digest = code_digest(text(code.get("code_id"), "codeId"), call.catalog)
    sent_environment = text(sent.get("environment_id"), "environmentId")
    if before and sent_environment and sent_environment == environment_id(before.environment, call.workspace):
        chosen, files = before.environment, before.environment_files
    else:
        chosen, files = environment(sent_environment, call.catalog), EnvironmentFiles()
    model = sent_model(sent.get("model"), call.catalog)
    if model and before and before.model and before.model.path == model.path:
        model = before.model
    document = deployment_document(endpoint, name, call.body, chosen, model.path if model else None)
    keys = deployment_from(document)  # Raises every problem at once.
    definition = deployment_definition(keys, model=model, code=digest, environment=chosen, files=files)
    view, is_new = call.control.endpoints.put_deployment(definition, call.principal)
    return _operation(call, _deployment(call, view), _path(call), is_new=is_new)


def delete_deployment(call: AzureCall) -> Answer:
    """Deletes a deployment without traffic."""
    call.control.endpoints.delete_deployment(
        call.name("an endpoint"), call.name("a deployment", "deployment"), call.principal
    )
    return _deletion(call, _path(call))


def deployment_operation(call: AzureCall) -> Answer:
    """How far a deployment is."""
    view = _view(call)
    return _progress(view.state, view.sentence)


def logs(call: AzureCall) -> Answer:
    """Returns the last lines of the replicas."""
    tail: Any = call.body.get("tail")
    if tail is not None and (isinstance(tail, bool) or not isinstance(tail, int) or not 1 <= tail <= MAX_LINES):
        raise RefusedError(f"{str(tail)[:40]} isn't a number of lines", where="tail", fix=f"1 to {MAX_LINES:,}.")
    if words.folded(call.body.get("containerType") or "") == NO_LOGS_OF:
        return Answer({"content": ""})
    endpoint, name = call.name("an endpoint"), call.name("a deployment", "deployment")
    return Answer({"content": call.control.endpoints.logs(endpoint, name, tail or DEFAULT_LINES).text})


def _deployment(call: AzureCall, view: DeploymentView) -> Table:
    definition = view.definition
    kind = call.control.endpoints.show(definition.endpoint_name).definition.kind
    properties = {
        **deployment_properties(definition, call.workspace, code_id(definition.code, call.workspace)),
        "endpointComputeType": KINDS[kind],
        "provisioningState": STATES[view.state],
    }
    path = f"onlineEndpoints/{definition.endpoint_name}/deployments/{definition.name}"
    body = resource(call, path, properties, system_data(words.moment(view.created_at) or ""))
    return {
        **body, "location": LOCATION, "kind": KINDS[kind], "tags": definition.tags,
        "sku": {"name": "Default", "capacity": definition.instance_count},
    }  # fmt: skip
