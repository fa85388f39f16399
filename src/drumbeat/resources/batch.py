"""Batch endpoints and their deployments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drumbeat.model.api.batch import BatchDeploymentView, BatchEndpointView
from drumbeat.resources.kind import Kind, Sentences, StoredResource

if TYPE_CHECKING:
    from drumbeat.jobfile.reading.loader import DocumentKind


def _endpoint_model() -> DocumentKind:
    from drumbeat.jobfile.batch.endpoints import BATCH_ENDPOINT as MODEL

    return MODEL


def _deployment_model() -> DocumentKind:
    from drumbeat.jobfile.batch.endpoints import KEPT_DEPLOYMENT

    return KEPT_DEPLOYMENT


def _endpoint(kept: StoredResource) -> BatchEndpointView:
    document: dict[str, Any] = dict(kept.document)
    defaults: dict[str, Any] = document.get("defaults") or {}
    default = str(defaults.get("deployment_name") or "")
    return BatchEndpointView(
        kept.name, default, document.get("description") or "", document.get("tags") or {}, document
    )


def _deployment(kept: StoredResource) -> BatchDeploymentView:
    document: dict[str, Any] = dict(kept.document)
    endpoint, _, name = kept.name.partition(".")
    return BatchDeploymentView(
        name=name,
        endpoint=endpoint,
        type=document.get("type", "model"),
        component=document["component"],
        compute=document.get("compute") or "",
        instance_count=document.get("instance_count", 1),
        model=document.get("model") or "",
        settings=document.get("settings") or {},
        pipeline_settings=document.get("pipeline_settings") or {},
        output_file_name=document.get("output_file_name", "predictions.csv"),
        description=document.get("description") or "",
        tags=document.get("tags") or {},
        document=document,
    )


BATCH_ENDPOINT = Kind(
    name="batch-endpoint",
    noun="batch endpoint",
    plural="batch endpoints",
    path="batch-endpoints",
    view_type=BatchEndpointView,
    view=_endpoint,
    model=_endpoint_model,
    sentences=Sentences(
        about="Batch endpoints: names under which deployments score folders of data. See docs/batch.md.",
        page="docs/batch.md",
        create="Create a batch endpoint, or replace the one of the same name.",
        list="List batch endpoints.",
        show="Show a batch endpoint.",
        delete="Delete a batch endpoint and its deployments. Its jobs continue.",
        example="digits",
        create_example="-f endpoint.yml",
        columns=lambda one: {
            "endpoint": one.name, "default deployment": one.default_deployment, "description": one.description
        },
        details=lambda one: {
            "endpoint": one.name,
            "default deployment": one.default_deployment,
            "description": one.description,
            "tags": ", ".join(f"{key}={value}" for key, value in one.tags.items()),
        },
        empty="no batch endpoints; create one: drumbeat batch-endpoint create -f FILE",
        created=lambda one: f"batch endpoint {one.name} is there; next: drumbeat batch-deployment create -f FILE",
        deleted="batch endpoint {name} is deleted",
    ),
)  # fmt: skip

BATCH_DEPLOYMENT = Kind(
    name="batch-deployment",
    noun="batch deployment",
    plural="batch deployments",
    path="batch-deployments",
    view_type=BatchDeploymentView,
    view=_deployment,
    model=_deployment_model,
    sentences=Sentences(
        about="Deployments of batch endpoints: a model and a script, or a pipeline. See docs/batch.md.",
        page="docs/batch.md",
        list="List the deployments of batch endpoints.",
        show="Show a deployment of a batch endpoint.",
        delete="Delete a deployment of a batch endpoint. Its jobs continue.",
        example="digits.blue",
        create_example="-f deployment.yml",
        name_help="Endpoint and deployment, with a dot: `digits.blue`.",
        columns=lambda one: {
            "endpoint": one.endpoint, "deployment": one.name, "type": one.type, "model": one.model,
            "compute": one.compute, ">nodes": one.instance_count,
        },
        details=lambda one: {
            "endpoint": one.endpoint,
            "deployment": one.name,
            "type": one.type,
            "component": one.component,
            "model": one.model,
            "compute": one.compute,
            "nodes": str(one.instance_count),
            "settings": ", ".join(f"{key}={value}" for key, value in one.settings.items()),
            "file of results": one.output_file_name,
            "description": one.description,
        },
        empty="no batch deployments; create one: drumbeat batch-deployment create -f FILE",
        deleted="batch deployment {name} is deleted",
    ),
)  # fmt: skip
