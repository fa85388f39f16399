"""Routes of online endpoints and their deployments."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response

from drumbeat.model.api.endpoint_requests import DeploymentRequests, SampleAnswer, SampleRequest
from drumbeat.model.api.endpoints import (
    DeploymentLogs,
    DeploymentView,
    EndpointKeys,
    EndpointToken,
    EndpointView,
)
from drumbeat.model.endpoints import KeyType, OnlineDeployment, OnlineEndpoint
from drumbeat.model.errors import SpecError
from drumbeat.server.context import ControlOf, PrincipalOf
from drumbeat.server.routing import new_router

router = new_router("/api/v1", tags=["online-endpoints"])

EndpointPath = Annotated[str, Path(min_length=1, max_length=255)]
DeploymentPath = Annotated[str, Path(min_length=1, max_length=255)]
Lines = Annotated[int, Query(ge=1, le=100_000, description="Of each replica, the last ones.")]
_NEW: dict[int | str, dict[str, Any]] = {201: {"description": "It is new."}}


@router.get("/online-endpoints")
def list_online_endpoints(control: ControlOf) -> list[EndpointView]:
    """Lists the online endpoints, by name."""
    return control.endpoints.list()


@router.get("/online-endpoints/{endpoint}")
def get_online_endpoint(endpoint: EndpointPath, control: ControlOf) -> EndpointView:
    """Returns an online endpoint."""
    return control.endpoints.show(endpoint)


@router.put("/online-endpoints/{endpoint}", responses=_NEW)
def put_online_endpoint(
    endpoint: EndpointPath, definition: OnlineEndpoint, control: ControlOf, principal: PrincipalOf, response: Response
) -> EndpointView:
    """Creates an online endpoint, or changes the one of this name. Its keys stay."""
    _require_name(endpoint, definition.name, "name")
    view, is_new = control.endpoints.put(definition, principal)
    response.status_code = 201 if is_new else 200
    return view


@router.delete("/online-endpoints/{endpoint}", status_code=204)
def delete_online_endpoint(endpoint: EndpointPath, control: ControlOf, principal: PrincipalOf) -> Response:
    """Deletes an online endpoint with its deployments. It is gone when their replicas have ended."""
    control.endpoints.delete(endpoint, principal)
    return Response(status_code=204)


@router.get("/online-endpoints/{endpoint}/keys")
def get_online_endpoint_keys(endpoint: EndpointPath, control: ControlOf, principal: PrincipalOf) -> EndpointKeys:
    """Returns the keys of an online endpoint."""
    return control.endpoints.keys(endpoint, principal)


@router.post("/online-endpoints/{endpoint}/keys/{key_type}")
def renew_online_endpoint_key(
    endpoint: EndpointPath, key_type: KeyType, control: ControlOf, principal: PrincipalOf
) -> EndpointKeys:
    """Replaces a key of an online endpoint. The other one stays valid."""
    return control.endpoints.renew_key(endpoint, key_type, principal)


@router.post("/online-endpoints/{endpoint}/token")
def create_online_endpoint_token(endpoint: EndpointPath, control: ControlOf) -> EndpointToken:
    """Returns a token for an online endpoint, which is valid for an hour."""
    return control.endpoints.token(endpoint)


@router.get("/online-endpoints/{endpoint}/deployments")
def list_online_deployments(endpoint: EndpointPath, control: ControlOf) -> list[DeploymentView]:
    """Lists the deployments of an online endpoint, by name."""
    return control.endpoints.deployments(endpoint)


@router.get("/online-endpoints/{endpoint}/deployments/{deployment}")
def get_online_deployment(endpoint: EndpointPath, deployment: DeploymentPath, control: ControlOf) -> DeploymentView:
    """Returns a deployment of an online endpoint."""
    return control.endpoints.deployment(endpoint, deployment)


@router.put("/online-endpoints/{endpoint}/deployments/{deployment}", responses=_NEW)
def put_online_deployment(
    endpoint: EndpointPath,
    deployment: DeploymentPath,
    definition: OnlineDeployment,
    control: ControlOf,
    principal: PrincipalOf,
    response: Response,
) -> DeploymentView:
    """Creates a deployment, or changes the one of this name: its replicas are replaced without a gap."""
    _require_name(endpoint, definition.endpoint_name, "endpoint_name")
    _require_name(deployment, definition.name, "name")
    view, is_new = control.endpoints.put_deployment(definition, principal)
    response.status_code = 201 if is_new else 200
    return view


@router.delete("/online-endpoints/{endpoint}/deployments/{deployment}", status_code=204)
def delete_online_deployment(
    endpoint: EndpointPath, deployment: DeploymentPath, control: ControlOf, principal: PrincipalOf
) -> Response:
    """Deletes a deployment that has no traffic. It is gone when its replicas have ended."""
    control.endpoints.delete_deployment(endpoint, deployment, principal)
    return Response(status_code=204)


@router.get("/online-endpoints/{endpoint}/deployments/{deployment}/logs")
def get_online_deployment_logs(
    endpoint: EndpointPath, deployment: DeploymentPath, control: ControlOf, lines: Lines = 5000
) -> DeploymentLogs:
    """Returns the last lines that the replicas of a deployment wrote."""
    return control.endpoints.logs(endpoint, deployment, lines)


# --- requests ---------------------------------------------------------------------------------------------------------
@router.get("/endpoint-requests")
def list_endpoint_requests(
    control: ControlOf,
    endpoint: Annotated[str, Query(max_length=255, description="Of this endpoint alone.")] = "",
    curves: Annotated[bool, Query(description="With the last hour, an interval after the other.")] = False,
) -> list[DeploymentRequests]:
    """Lists the deployments of online endpoints with their replicas and the requests that they answer."""
    return control.endpoint_requests.list(endpoint, with_curves=curves)


@router.post("/online-endpoints/{endpoint}/requests")
def send_sample_request(
    endpoint: EndpointPath, sample: SampleRequest, control: ControlOf, principal: PrincipalOf
) -> SampleAnswer:
    """Sends a request to an online endpoint with its key, and returns the answer with its status and its time."""
    return control.endpoint_requests.send_sample(endpoint, sample, principal)


def _require_name(path: str, name: str, where: str) -> None:
    if path != name:
        raise SpecError(f"the address names {path}, and the body {name}", where=where)
