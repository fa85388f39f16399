"""The table of Azure's routes. docs/azure.md lists what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.server.azure import (
    assets,
    batch_endpoints,
    codes,
    datastores,
    history,
    jobs,
    mlflow,
    online_endpoints,
    schedules,
    workspaces,
)
from drumbeat.server.azure.call import Handler

SUBSCRIPTION, GROUP = r"/subscriptions/(?P<subscription>[^/]+)", r"/resourcegroups/(?P<group>[^/]+)"
PROVIDER = r"/providers/Microsoft\.MachineLearningServices"
WORKSPACE = rf"{SUBSCRIPTION}{GROUP}{PROVIDER}/workspaces/(?P<workspace>[^/]+)"
WORKSPACES = re.compile(rf"{SUBSCRIPTION}(?:{GROUP})?{PROVIDER}/workspaces/?", re.IGNORECASE)
OWN = "drumbeat"
"""The workspace and the resource group of a request that names none."""
HISTORY, DATA, MODELS = r"/history/v1\.0", r"/data/v1\.0", r"/modelregistry/v1\.0"
FRONTEND = "/mferp/managementfrontend"
MLFLOW = re.compile(rf"/mlflow/v[12]\.0{WORKSPACE}/(?P<path>.+)", re.IGNORECASE | re.DOTALL)
"""MLflow's own API, for azureml-mlflow."""


@dataclass(frozen=True)
class AzureRoute:
    """A method and a path below the workspace, with variable parts, such as `jobs/{name}`. before: what leads to it."""

    method: str
    path: str
    handler: Handler
    before: str = ""

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches the path of a request. Clients write `resourcegroups` in small letters, too."""
        inner = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path)
        below = f"/{inner}" if inner else ""
        return re.compile(f"{self.before}{WORKSPACE}{below}/?", re.IGNORECASE)


class AzureMatch(NamedTuple):
    """The route of a request, and the variable parts of its path."""

    handler: Handler
    parts: dict[str, str]


def _table(paths: Mapping[str, Handler], before: str = "") -> Iterator[AzureRoute]:
    for key, handler in paths.items():
        method, _, path = key.partition(" ")
        yield AzureRoute(method, path, handler, before)


ROUTES: tuple[AzureRoute, ...] = (
    *_table({
        "GET ": workspaces.show,
        "POST listKeys": workspaces.list_keys,
        "GET operations/{name}": workspaces.operation,
        "GET computes": workspaces.list_computes,
        "GET computes/{name}": workspaces.show_compute,
        "PUT computes/{name}": workspaces.put_compute,
        "DELETE computes/{name}": workspaces.delete_compute,
        "POST computes/{name}/listNodes": workspaces.list_nodes,
        "POST computes/{name}/start": workspaces.refuse_action,
        "POST computes/{name}/stop": workspaces.refuse_action,
        "POST computes/{name}/restart": workspaces.refuse_action,
        "GET datastores": datastores.list_datastores,
        "GET datastores/{name}": datastores.show_datastore,
        "PUT datastores/{name}": datastores.put_datastore,
        "DELETE datastores/{name}": datastores.delete_datastore,
        "POST datastores/{name}/listSecrets": datastores.list_secrets,
        "GET codes/{name}/versions": codes.versions,
        "GET codes/{name}/versions/{version}": codes.show,
        "PUT codes/{name}/versions/{version}": codes.put,
        "POST codes/{name}/versions/{version}/startPendingUpload": codes.start_upload,
        "GET jobs": jobs.list_jobs,
        "GET jobs/{name}": jobs.show,
        "PUT jobs/{name}": jobs.put,
        "DELETE jobs/{name}": jobs.delete,
        "POST jobs/{name}/cancel": jobs.cancel,
        "GET jobs/{name}/cancellation": jobs.cancellation,
        "GET batchEndpoints": batch_endpoints.list_endpoints,
        "GET batchEndpoints/{name}": batch_endpoints.show,
        "PUT batchEndpoints/{name}": batch_endpoints.put,
        "DELETE batchEndpoints/{name}": batch_endpoints.delete,
        "GET batchEndpoints/{name}/jobs": batch_endpoints.list_jobs,
        "POST batchEndpoints/{name}/jobs": batch_endpoints.invoke,
        "GET batchEndpoints/{name}/deployments": batch_endpoints.list_deployments,
        "GET batchEndpoints/{name}/deployments/{deployment}": batch_endpoints.show_deployment,
        "PUT batchEndpoints/{name}/deployments/{deployment}": batch_endpoints.put_deployment,
        "DELETE batchEndpoints/{name}/deployments/{deployment}": batch_endpoints.delete_deployment,
        "GET batchEndpoints/{name}/deployments/{deployment}/jobs": batch_endpoints.list_jobs,
        "GET schedules": schedules.list_schedules,
        "GET schedules/{name}": schedules.show,
        "PUT schedules/{name}": schedules.put,
        "DELETE schedules/{name}": schedules.delete,
        "POST schedules/{name}/trigger": schedules.trigger,
        "GET onlineEndpoints": online_endpoints.list_endpoints,
        "GET onlineEndpoints/{name}": online_endpoints.show,
        "PUT onlineEndpoints/{name}": online_endpoints.put,
        "DELETE onlineEndpoints/{name}": online_endpoints.delete,
        "GET onlineEndpoints/{name}/operation": online_endpoints.operation,
        "GET onlineEndpoints/{name}/deletion": online_endpoints.deletion,
        "POST onlineEndpoints/{name}/listKeys": online_endpoints.list_keys,
        "POST onlineEndpoints/{name}/regenerateKeys": online_endpoints.renew_key,
        "POST onlineEndpoints/{name}/token": online_endpoints.token,
        "GET onlineEndpoints/{name}/deployments": online_endpoints.list_deployments,
        "GET onlineEndpoints/{name}/deployments/{deployment}": online_endpoints.show_deployment,
        "PUT onlineEndpoints/{name}/deployments/{deployment}": online_endpoints.put_deployment,
        "DELETE onlineEndpoints/{name}/deployments/{deployment}": online_endpoints.delete_deployment,
        "GET onlineEndpoints/{name}/deployments/{deployment}/operation": online_endpoints.deployment_operation,
        "GET onlineEndpoints/{name}/deployments/{deployment}/deletion": online_endpoints.deletion,
        "POST onlineEndpoints/{name}/deployments/{deployment}/getLogs": online_endpoints.logs,
    }),
    *(
        AzureRoute(method, path, handler)
        for kind in (assets.ENVIRONMENTS, assets.DATA, assets.MODEL_VERSIONS, assets.COMPONENTS)
        for (method, path), handler in kind.handlers().items()
    ),
    *_table({
        "GET runs/{name}": history.show,
        "GET runs/{name}/details": history.details,
        "GET runs/{name}/children": history.children,
        "GET runs/{name}/serviceinstances/{node}": history.service_instances,
        "GET experiments/{experiment}/runs/{name}": history.show,
        "GET experiments/{experiment}/runs/{name}/details": history.details,
        "PATCH experiments/{experiment}/runs/{name}": history.patch,
        "PATCH runs/{name}": history.patch,
        "POST rundata": history.run_data,
    }, HISTORY),
    *_table({
        f"{method} {kind}/{{experiment}}/runs/{{name}}/artifacts{path}": handler
        for kind in ("experiments", "experimentids")
        for method, path, handler in (
            ("GET", "", mlflow.list_artifacts),
            ("GET", "/path", mlflow.list_artifacts),
            ("GET", "/contentinfo", mlflow.show_content),
            ("GET", "/prefix/contentinfo", mlflow.list_contents),
            ("POST", "/batch/metadata", mlflow.create_artifacts),
        )
    }, HISTORY),
    *_table({"POST dataversion/batchGetResolvedUris": history.resolve_outputs}, DATA),
    *_table({"POST models/batchGetResolvedUris": history.resolve_outputs}, MODELS),
    *_table({
        "GET batchEndpoints/{name}/jobs": batch_endpoints.list_jobs,
        "GET batchEndpoints/{name}/deployments/{deployment}/jobs": batch_endpoints.list_jobs,
    }, FRONTEND),
)  # fmt: skip

_COMPILED = [(route, route.pattern) for route in ROUTES]
_ANYWHERE = rf"{SUBSCRIPTION}(?:{GROUP})?{PROVIDER}/(?:workspaces/[^/]+/)?"
REFUSED: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(f"{_ANYWHERE}(?:{paths})(?:/.*)?", re.IGNORECASE | re.DOTALL), what, fix)
    for paths, what, fix in (
        (
            "serverlessEndpoints|inferencePools|capacityReservationGroups",
            "drumbeat has no endpoints of models that a cloud runs",
            "Serve the model by an online endpoint: docs/endpoints.md.",
        ),
        (
            (
                "featuresets|featurestoreEntities|featurestores|connections|marketplaceSubscriptions|outboundRules"
                "|managedNetworks|datasets|privateEndpointConnections|raiPolicies|labelingJobs"
            ),
            "drumbeat has no such thing",
            "docs/azure.md says what is there.",
        ),
        ("resyncKeys|diagnose|notebookAccessToken", "a drumbeat server has no keys of accounts", ""),
        ("locations/[^/]+/vmSizes", "drumbeat offers no sizes of machines", "See your own: drumbeat compute list"),
        ("locations/[^/]+/(?:usages|quotas)", "drumbeat has no quotas of a cloud", "See what is used: drumbeat top"),
    )
)


def find(method: str, path: str) -> AzureMatch:
    """Returns the route of a request. Raises RefusedError, NotFoundError."""
    if method == "GET" and (match := WORKSPACES.fullmatch(path)):
        return AzureMatch(workspaces.list_workspaces, {"workspace": OWN, **match.groupdict(OWN)})
    for route, pattern in _COMPILED:
        if route.method == method and (match := pattern.fullmatch(path)):
            return AzureMatch(route.handler, match.groupdict())
    for refused, what, fix in REFUSED:
        if refused.fullmatch(path):
            where = re.split(rf"{PROVIDER}/(?:workspaces/)?", path, flags=re.IGNORECASE)[-1]
            raise RefusedError(what, where=where[:200], fix=fix)
    raise NotFoundError(f"drumbeat has no route {method} {path[:300]} of Azure's API", fix="docs/azure.md")
