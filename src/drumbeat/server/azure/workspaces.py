"""The workspace, its computes and its datastores."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from drumbeat.jobfile.compute.amlcompute import cloud_refusal
from drumbeat.model.api.computes import ComputeView, NodeState
from drumbeat.model.api.data import DatastoreView
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.model.principal import Role
from drumbeat.server.azure import sas
from drumbeat.server.azure.call import Answer, AzureCall, Table, resource
from drumbeat.server.azure.containers import ARTIFACTS, DEFAULT_STORE
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import without_nulls
from drumbeat.server.azure.translation.job_answers import system_data
from drumbeat.server.resources.aliases import read_aliases, remove_alias, set_alias

LOCATION = "local"
TARGET = "local"
"""What the name of a cluster means that a script creates."""
SINCE = "2020-01-01T00:00:00Z"
"""When resources were created of which that isn't views."""
BUILT_IN = (DEFAULT_STORE, ARTIFACTS)


# --- the workspace ---------------------------------------------------------------------------------------------------
def show(call: AzureCall) -> Answer:
    """Any workspace that a script names is this server."""
    where = call.workspace
    host = call.base.partition("://")[2]
    storage = f"/subscriptions/{where.subscription}/resourceGroups/{where.group}/providers/Microsoft.Storage"
    properties = {
        "workspaceId": workspace_id(call),
        "friendlyName": where.name,
        "description": "A drumbeat server.",
        "discoveryUrl": f"{call.base}/discovery",
        "mlFlowTrackingUri": f"azureml://{host}/mlflow/v1.0{where.path}",
        "storageAccount": f"{storage}/storageAccounts/drumbeat",
        "keyVault": None,
        "applicationInsights": None,
        "containerRegistry": None,
        "hbiWorkspace": False,
        "publicNetworkAccess": "Enabled",
        "provisioningState": "Succeeded",
        "tenantId": TENANT,
    }
    body = {
        "id": where.path, "name": where.name, "type": "Microsoft.MachineLearningServices/workspaces",
        "location": LOCATION, "kind": "Default", "tags": {}, "properties": properties,
        "identity": {"type": "SystemAssigned", "principalId": TENANT, "tenantId": TENANT},
        "sku": {"name": "Basic", "tier": "Basic"}, "systemData": system_data(SINCE),
    }  # fmt: skip
    return Answer(body)


TENANT = "00000000-0000-0000-0000-000000000000"


def workspace_id(call: AzureCall) -> str:
    """Returns the id that a workspace has."""
    text = hashlib.sha256(call.workspace.path.lower().encode()).hexdigest()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def list_workspaces(call: AzureCall) -> Answer:
    """Lists the one workspace that there is."""
    return Answer({"value": [show(call).body]})


# --- computes --------------------------------------------------------------------------------------------------------
def list_computes(call: AzureCall) -> Answer:
    """Lists the computes, also under the names that aliases give them."""
    views = {one.name: one for one in call.control.computes.list()}
    for (kind, name), target in read_aliases(call.control.store).items():
        if kind == "compute" and target in views and name not in views:
            views[name] = views[target]
    return Answer({"value": [_compute(call, name, one) for name, one in sorted(views.items())]})


def show_compute(call: AzureCall) -> Answer:
    """Shows a compute."""
    name = call.name("a compute")
    return Answer(_compute(call, name, _compute_view(call, name)))


def _compute_view(call: AzureCall, name: str) -> ComputeView:
    target = read_aliases(call.control.store).get(("compute", name), name)
    try:
        return call.control.computes.show(target)
    except NotFoundError as error:
        fix = f"Say what its name means here: drumbeat alias set compute {name} local"
        raise NotFoundError(error.what, where=error.where, fix=fix) from None


def _compute(call: AzureCall, name: str, view: ComputeView) -> Table:
    count = len(view.machines)
    scale = view.scale
    properties = {
        "computeType": "AmlCompute",
        "computeLocation": LOCATION,
        "provisioningState": "Succeeded",
        "description": f"drumbeat's compute {view.name}",
        "createdOn": SINCE,
        "modifiedOn": SINCE,
        "disableLocalAuth": True,
        "isAttachedCompute": False,
        "provisioningErrors": [{"error": {"code": "Trouble", "message": view.trouble}}] if view.trouble else None,
        "properties": {
            "vmSize": view.engine.upper(),
            "vmPriority": "LowPriority" if scale and scale.tier == "low_priority" else "Dedicated",
            "osType": "Linux",
            "scaleSettings": {
                "minNodeCount": scale.min_instances if scale else count,
                "maxNodeCount": max(1, scale.max_instances if scale else count),
                "nodeIdleTimeBeforeScaleDown": words.duration(scale.idle_time_s if scale else None) or "PT120S",
            },
            "currentNodeCount": count,
            "targetNodeCount": count,
            "allocationState": "Steady",
            "remoteLoginPortPublicAccess": "Disabled",
            "enableNodePublicIp": False,
            "isolatedNetwork": False,
        },
    }
    body = resource(call, f"computes/{name}", properties, system_data(SINCE))
    return {**body, "location": LOCATION, "tags": {}}


def put_compute(call: AzureCall) -> Answer:
    """Takes a compute that exists as it is. The name of a cluster of Azure's becomes an alias of this machine.

    drumbeat creates no machines in a cloud.
    """
    name = call.name("a compute")
    kind = str(call.properties.get("computeType") or "AmlCompute")
    try:
        view = _compute_view(call, name)
    except NotFoundError:
        if words.folded(kind) != "amlcompute":
            what, fix = cloud_refusal(kind, name) or (f"drumbeat creates no computes of type {kind[:40]!a}", "")
            fix = fix or "List the computes: drumbeat compute list"
            raise RefusedError(what, where=f"compute {name}", fix=fix) from None
        set_alias(call.control.store, "compute", name, TARGET)
        view = _compute_view(call, name)
    return long_running(call, _compute(call, name, view))


def long_running(call: AzureCall, body: Any, status: int = 201) -> Answer:
    """An answer with the address at which the client asks how far it is. 1.25 reads no answer without one."""
    url = f"{call.base}{call.workspace.path}/operations/done?api-version=2024-01-01"
    return Answer(body, status, {"Azure-AsyncOperation": url, "Location": url, "Retry-After": "0"})


def operation(_call: AzureCall) -> Answer:
    """Everything that is answered has been done by then."""
    return Answer({"status": "Succeeded", "percentComplete": 100, "name": "done"})


def delete_compute(call: AzureCall) -> Answer:
    """Deletes a compute, or the alias that it is."""
    name = call.name("a compute")
    if ("compute", name) in read_aliases(call.control.store):
        remove_alias(call.control.store, "compute", name)
    else:
        call.control.computes.delete(name)
    return Answer(status=200)


def refuse_action(_call: AzureCall) -> Answer:
    """Refuses to start and stop a compute."""
    what = "machines of drumbeat's computes aren't started and stopped one by one"
    raise RefusedError(what, fix="A compute with limits starts them when jobs need them: docs/computes.md.")


def list_nodes(call: AzureCall) -> Answer:
    """Lists the machines of a compute."""
    view = _compute_view(call, call.name("a compute"))
    jobs = {one.machine: one.job for one in view.held}
    nodes = [
        {
            "nodeId": one.name, "nodeState": _NODE_STATES.get(one.state, "idle"), "privateIpAddress": None,
            "publicIpAddress": None, "port": None, "runId": jobs.get(one.name),
        }
        for one in view.machines
    ]  # fmt: skip
    return Answer({"nodes": nodes})


_NODE_STATES = {state: state.value for state in NodeState if state is not NodeState.OFF}


# --- datastores ------------------------------------------------------------------------------------------------------
def list_datastores(call: AzureCall) -> Answer:
    """Lists the datastores, or the default one."""
    views = call.control.catalogs.datastores.list()
    if str(call.query.get("isDefault", "")).lower() == "true":
        views = [one for one in views if one.is_default]
    return Answer({"value": [_datastore(call, one) for one in views]})


def show_datastore(call: AzureCall) -> Answer:
    """Shows a datastore."""
    return Answer(_datastore(call, call.control.catalogs.datastores.show(call.name("a datastore"))))


def _datastore(call: AzureCall, view: DatastoreView) -> Table:
    """Every kind of datastore is reached by the Blob protocol here: the server passes on what it reads and writes."""
    host = call.base.partition("://")[2]
    properties = {
        "datastoreType": "AzureBlob",
        # The client appends a suffix of Azure's, which the `#` discards: the blobs are at this server's own address.
        "accountName": f"{host}/blob/ws#",
        "containerName": view.name,
        "endpoint": STORAGE_SUFFIX,
        "protocol": "https",
        "credentials": {"credentialsType": "Sas", "secrets": None},
        "isDefault": view.is_default,
        "description": str(view.document.get("description") or f"drumbeat's datastore {view.name} ({view.type})"),
        "tags": {key: str(value) for key, value in words.mapping(view.document.get("tags")).items()},
        "properties": {},
        "serviceDataAccessAuthIdentity": "None",
        "subscriptionId": call.workspace.subscription,
        "resourceGroup": call.workspace.group,
    }
    return resource(call, f"datastores/{view.name}", properties, system_data(SINCE))


STORAGE_SUFFIX = "drumbeat.invalid"
_TYPES = {"azureblob": "azure_blob", "azurefile": "azure_file", "azuredatalakegen2": "azure_data_lake_gen2"}
_SECRETS = {"key": "account_key", "sastoken": "sas_token", "clientsecret": "client_secret"}


def put_datastore(call: AzureCall) -> Answer:
    """Creates a datastore with its credentials, which are sealed."""
    name, given = call.name("a datastore"), words.snake_keys(call.properties)
    kind = _TYPES.get(words.folded(given.get("datastore_type")))
    if kind is None:
        what = f"drumbeat has no datastores of type {str(given.get('datastore_type'))[:40]!a}"
        raise RefusedError(what, where=name, fix=f"It has {', '.join(_TYPES.values())}.")
    place = {key: given.get(key) for key in ("account_name", "container_name", "filesystem", "file_share_name")}
    document = without_nulls(
        {
            "name": name,
            "type": kind,
            **place,
            "endpoint": given.get("endpoint"),
            "protocol": given.get("protocol"),
            "description": given.get("description") or None,
            "tags": given.get("tags") or None,
            "credentials": _credentials(given.get("credentials")),
        }
    )
    is_checked = str(call.query.get("skipValidation", "")).lower() != "true"
    made, _ = call.control.catalogs.datastores.create(document, "datastore", check=is_checked)
    echo = {key: value for key, value in call.properties.items() if key != "credentials"}
    kept = {**_datastore(call, made)["properties"], **without_nulls(echo)}
    kept["credentials"] = {"credentialsType": _credentials_type(given.get("credentials")), "secrets": None}
    return Answer(resource(call, f"datastores/{name}", kept, system_data(SINCE)), 201)


def _credentials_type(value: object) -> str:
    return str(words.snake_keys(value).get("credentials_type") or "None")


def _credentials(value: object) -> Table | None:
    given = words.snake_keys(value)
    secrets = words.snake_keys(given.get("secrets"))
    match words.folded(given.get("credentials_type", "none")):
        case "accountkey":
            return {"account_key": secrets.get("key")}
        case "sas":
            return {"sas_token": secrets.get("sas_token")}
        case "serviceprincipal":
            return {
                "tenant_id": given.get("tenant_id"), "client_id": given.get("client_id"),
                "client_secret": secrets.get("client_secret"),
            }  # fmt: skip
        case "none":
            return None
        case other:
            raise RefusedError(f"drumbeat reads no stores with credentials of type {other[:40]!a}")


def delete_datastore(call: AzureCall) -> Answer:
    """Deletes a datastore, but not its content."""
    call.control.catalogs.datastores.delete(call.name("a datastore"))
    return Answer(status=200)


def list_secrets(call: AzureCall) -> Answer:
    """Gives a signature of the person who asks, never a key of an account. A reader's is for reading."""
    name = call.name("a datastore")
    store = call.control.catalogs.datastores.show(name).name
    may_write = call.principal.role is not Role.READER
    token = sas.blob_query(call.tokens, store, call.digest, may_write=may_write)
    return Answer({"secretsType": "Sas", "sasToken": token})


def now() -> str:
    """Returns the time as the API writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
