"""What the replicas of a deployment run, fixed when it is put: exact versions in place of names and labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from drumbeat.jobfile.data.paths import AssetReference, reference_to
from drumbeat.model.endpoints import DeployedModel, OnlineDeployment, OnlineEndpoint
from drumbeat.model.errors import SpecError
from drumbeat.server.endpoints.replica_jobs import REFERENCE
from drumbeat.server.jobs.planner import Planner
from drumbeat.server.models.models import Models

_ROUTES = "`environment: {inference_config: {scoring_route: {port: 8000, path: /score}}}`"


def pinned(definition: OnlineDeployment, owner: OnlineEndpoint, models: Models, planner: Planner) -> OnlineDeployment:
    """Returns a deployment with its compute, the exact version of its model, and the routes of its environment.

    Raises NotFoundError, SpecError.
    """
    exact = replace(
        definition,
        model=_model(definition.model, models),
        environment=_environment(definition.environment, planner),
        drumbeat=replace(definition.drumbeat, compute=definition.drumbeat.compute or owner.compute),
    )
    if exact.drumbeat.command and not exact.inference_config:
        what = "a command needs routes, by which requests reach it, and the environment has no `inference_config`"
        raise SpecError(what, where="drumbeat.command", fix=f"Write {_ROUTES}, or register it so.")
    is_mlflow = exact.model is not None and exact.model.type == "mlflow_model"
    if not (is_mlflow or exact.scoring_script or exact.inference_config):
        what = "nothing answers requests: it has no scoring script, no MLflow model, and its environment no routes"
        raise SpecError(what, where="environment", fix=f"Give it `code_configuration`, or {_ROUTES}.")
    return exact


def _model(model: DeployedModel | None, models: Models) -> DeployedModel | None:
    reference = reference_to(model.path, "model") if model else None
    if model is None or not isinstance(reference, AssetReference):
        return model
    label = f"@{reference.label}" if reference.label else ""
    version = models.find(reference.name, reference.version or label)
    return replace(model, path=f"azureml:{version.name}:{version.version}", type=version.document["type"])


def _environment(written: Any, planner: Planner) -> Any:
    """Returns an environment; one that is named and has routes as what is registered, with its exact version."""
    registered = planner.registered_environment(written) if isinstance(written, str) else None
    if registered is None or not registered.document["environment"].get("inference_config"):
        return written
    return {**registered.document["environment"], REFERENCE: f"azureml:{registered.name}:{registered.version}"}
