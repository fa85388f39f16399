"""The workspace and its computes."""

from __future__ import annotations

import hashlib
from typing import Any

from drumbeat.jobfile.compute.amlcompute import cloud_refusal
from drumbeat.model.api.computes import ComputeView, NodeState
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.server.azure.call import Answer, AzureCall, Table, resource
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.job_answers import system_data
from drumbeat.server.resources.aliases import read_aliases, remove_alias, set_alias

LOCATION = "local"
TARGET = "local"
"""What the name of a cluster means that a script creates."""
SINCE = "2020-01-01T00:00:00Z"
"""When resources were created of which that isn't views."""


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


def list_keys(_call: AzureCall) -> Answer:
    """Gives no keys: a server has none, each user has a token."""
    return Answer({"userStorageKey": None, "userStorageArmId": None, "appInsightsInstrumentationKey": None})


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
