"""Which deployment an invocation of a batch endpoint runs, and which can be deleted: for every client."""

from __future__ import annotations

from collections.abc import Sequence

from drumbeat.model.api.batch import BatchDeploymentView, BatchEndpointView
from drumbeat.model.errors import ConflictError, NotFoundError, SpecError


def choose_deployment(
    endpoint: BatchEndpointView, deployments: Sequence[BatchDeploymentView], name: str = ""
) -> BatchDeploymentView:
    """Returns the deployment that an invocation runs: the named one, the default one, or the only one.

    deployments: of the endpoint. Raises NotFoundError; SpecError where there are several, and none is the default.
    """
    wanted = name or endpoint.default_deployment
    if not wanted and len(deployments) == 1:
        return deployments[0]
    chosen = next((one for one in deployments if one.name == wanted), None)
    if chosen is not None:
        return chosen
    names = ", ".join(one.name for one in deployments) or "none"
    if wanted:
        raise NotFoundError(f"batch endpoint {endpoint.name} has no deployment {wanted}; deployments: {names}")
    what = f"batch endpoint {endpoint.name} has no default deployment; deployments: {names}"
    raise SpecError(what, where="deployment", fix=f"Name one, or make it the default: {_command(endpoint.name)}")


def require_not_default(endpoint: BatchEndpointView, deployments: Sequence[BatchDeploymentView], name: str) -> None:
    """Raises ConflictError for the default deployment beside others: invocations would have none to run."""
    if name == endpoint.default_deployment and len(deployments) > 1:
        what = f"{name} is the default deployment of {endpoint.name}"
        raise ConflictError(what, where="deployment", fix=f"Make another one the default: {_command(endpoint.name)}")


def _command(endpoint: str) -> str:
    return f"drumbeat batch-endpoint update {endpoint} --set defaults.deployment_name=NAME"
