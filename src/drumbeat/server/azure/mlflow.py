"""MLflow's API for azureml-mlflow, which finds it below the workspace and has the artifacts of runs as blobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from drumbeat.model.errors import ForbiddenError, NotFoundError, RefusedError
from drumbeat.model.mlflow_calls import MlflowRefusal
from drumbeat.server.azure import sas
from drumbeat.server.azure.call import Answer, AzureCall, Table
from drumbeat.server.azure.containers import (
    LOGGED_MODEL,
    MLFLOW_RUN,
    RunContainer,
    artifacts_of,
    require_inner,
)
from drumbeat.server.azure.datastores import STORAGE_SUFFIX
from drumbeat.server.metrics.mlflow import service
from drumbeat.server.metrics.mlflow.logged_models import KIND as LOGGED_MODELS
from drumbeat.server.metrics.mlflow.service import MlflowRequest
from drumbeat.server.metrics.mlflow.write_scope import scope_of_user

if TYPE_CHECKING:
    from starlette.requests import Request

    from drumbeat.model.principal import Principal
    from drumbeat.server.azure.translation.arm_ids import Workspace
    from drumbeat.server.context import ServerContext

EXPERIMENT = "0"
"""What addresses of artifacts have for an experiment: a run is known by its id alone."""
ACCOUNT = f"ws.blob.{STORAGE_SUFFIX}"
"""The plugin downloads only from addresses in which this stands."""
MAX_PATHS = 5000
_ADDRESS = re.compile(rb'"mlflow-artifacts:/(?:([0-9A-Za-z_-]+)/artifacts|(?:[0-9A-Za-z_-]+/)?models/(m-[0-9A-Za-z]+))')
"""The address of a run's artifacts, or of a logged model: the plugin reads both as those of a run."""


async def answer(
    request: Request, context: ServerContext, principal: Principal, workspace: Workspace, path: str
) -> Response:
    """Answers a request of MLflow's API, with the addresses of artifacts that the plugin reads. path: of MLflow's."""
    scope = scope_of_user(context.control.loop, principal)
    given = await service.answer(MlflowRequest(request, context, path, scope=scope, by=principal.title))
    if not isinstance(given, JSONResponse):
        return given
    host = request.headers["host"]
    root = f'"azureml://{host}/mlflow/v2.0{workspace.path}/experiments/{EXPERIMENT}/runs/'.encode()
    body = _ADDRESS.sub(lambda match: root + (match[1] or match[2]) + b"/artifacts", bytes(given.body))
    return Response(body, given.status_code, media_type="application/json")


# --- artifacts -------------------------------------------------------------------------------------------------------
def _artifacts(call: AzureCall, *, is_change: bool = False) -> tuple[str, RunContainer]:
    """Returns the id of a run or of a logged model, and its artifacts.

    Raises NotFoundError; ForbiddenError for what the caller may not change.
    """
    store, source = call.control.metrics.store, call.name("a run")
    scope = scope_of_user(call.control.loop, call.principal)
    if is_change and scope is not None:
        try:
            model = store.document(LOGGED_MODELS, source) if source.startswith(LOGGED_MODEL) else None
            run = str(model.body["info"]["source_run_id"]) if model else source
            if model and not run:
                scope.require_document(model, f"the logged model {source}")
            else:
                scope.require_run(store.run(run))
        except MlflowRefusal as refusal:
            raise ForbiddenError(str(refusal)) from None
    return source, artifacts_of(call.control, source)


def _place(id: str, path: str) -> Table:
    container = f"dcid.{id}"
    return {
        "artifactId": f"ExperimentRun/{container}/{path}",
        "origin": "ExperimentRun",
        "container": container,
        "path": path,
    }


def list_artifacts(call: AzureCall) -> Answer:
    """Lists the artifacts of a run. `path`: only those below it."""
    source, artifacts = _artifacts(call)
    prefix = call.query.get("path", "").strip("/")
    listed = artifacts.below(f"{prefix}/" if prefix else "", is_deep=True)
    return Answer({"value": [_place(source, one.name) for one in listed], "continuationToken": None, "nextLink": None})


def create_artifacts(call: AzureCall) -> Answer:
    """Returns where files are written that are to be artifacts of a run."""
    (source, _), paths = _artifacts(call, is_change=True), call.body.get("paths")
    if not isinstance(paths, list) or len(cast("list[Any]", paths)) > MAX_PATHS:
        raise RefusedError(f"expected a list of at most {MAX_PATHS:,} paths", where="paths")
    names = [_path(one) for one in cast("list[Any]", paths)]
    return Answer({
        "artifacts": {name: _place(source, name) for name in names},
        "artifactContentInformation": {name: _content(call, source, name, may_write=True) for name in names},
        "errors": {},
    })  # fmt: skip


def _path(given: object) -> str:
    path = cast("Table", given).get("path") if isinstance(given, dict) else None
    if not isinstance(path, str):
        raise RefusedError("expected objects with a `path`", where="paths")
    return require_inner(path)


def show_content(call: AzureCall) -> Answer:
    """Returns the address at which an artifact is read. Raises NotFoundError."""
    source, artifacts = _artifacts(call)
    name = require_inner(call.query.get("path", "").strip("/"))
    artifacts.find(name)
    return Answer(_content(call, source, name, may_write=False))


def list_contents(call: AzureCall) -> Answer:
    """Returns the addresses at which the artifacts below a path are read."""
    (source, artifacts), prefix = _artifacts(call), call.query.get("path", "").strip("/")
    listed = artifacts.below(f"{prefix}/" if prefix else "", is_deep=True)
    if prefix and not listed:
        raise NotFoundError("the run has no artifacts there", where=prefix[:300])
    return Answer({"value": [_content(call, source, one.name, may_write=False) for one in listed]})


def _content(call: AzureCall, id: str, path: str, *, may_write: bool) -> Table:
    container = MLFLOW_RUN + id
    query = sas.blob_query(call.tokens, container, call.digest, may_write=may_write)
    return {**_place(id, path), "contentUri": f"{call.base}/blob/{ACCOUNT}/{container}/{quote(path)}?{query}"}
