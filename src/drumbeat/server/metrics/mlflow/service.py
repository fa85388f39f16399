"""Answers requests of MLflow's clients, which come with the API token, or from nodes with their secrets.

Outside of jobs: `MLFLOW_TRACKING_URI=http://host:port/mlflow`, with the API token as `MLFLOW_TRACKING_TOKEN`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from stat import S_ISREG
from typing import Any

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from drumbeat.model.errors import DrumbeatError
from drumbeat.model.metrics import JsonObject, MetricRecord, Run, run_id
from drumbeat.model.mlflow_calls import VERSION, MlflowRefusal, missing
from drumbeat.server.context import ContextOf, PrincipalOf, ServerContext, away
from drumbeat.server.file_bodies import UPLOADS, BodyReader, ByteRange, ServedFile
from drumbeat.server.json_bodies import read_json
from drumbeat.server.metrics.mlflow import artifacts
from drumbeat.server.metrics.mlflow.errors import response
from drumbeat.server.metrics.mlflow.request import Call
from drumbeat.server.metrics.mlflow.routes import find
from drumbeat.server.metrics.mlflow.write_scope import WriteScope, scope_of_user
from drumbeat.server.models.mlflow_rows import REGISTERED
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest

router = new_router("/mlflow", include_in_schema=False)

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
RANK = "X-Drumbeat-Rank"
"""The header in which a node's endpoint names the calling rank."""
_FILES = "api/2.0/mlflow-artifacts/artifacts/"
_READS = frozenset({"api/2.0/mlflow/runs/get", "api/2.0/mlflow/runs/search"})
"""Routes that return the status of runs, for which runs of ended jobs are ended first."""
_LISTS = frozenset({"run_ids", "run_id", "order_by", "experiment_ids", "stages"})
"""Arguments that a query may repeat."""


@dataclass(frozen=True)
class MlflowRequest:
    """A request of a client. path: below MLflow's root, such as `api/2.0/mlflow/runs/get`."""

    request: Request
    context: ServerContext
    path: str
    rank: int = 0
    scope: WriteScope | None = None
    """What the caller may change; None = everything."""
    by: str = ""
    """The user who calls; "" = a job."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.request.method

    def call(self, arguments: JsonObject) -> Call:
        """Returns the call with these arguments."""
        control = self.context.control
        files, rows = control.artifacts.of_runs, control.model_rows
        return Call(
            arguments, control.metrics.store, files, rows, rank=self.rank, scope=self.scope, on_write=self._take_labels
        )

    def _take_labels(self, run: Run, records: Sequence[MetricRecord]) -> None:
        if run.job and run.id == run_id(run.job):
            self.context.control.metrics.labels.note(run.job, records, self.by)


@router.api_route("/" + rest("path"), methods=METHODS)
async def ask_mlflow(path: str, request: Request, context: ContextOf, principal: PrincipalOf) -> Response:
    """Answers one request of an MLflow client outside of jobs."""
    scope = scope_of_user(context.control.loop, principal)
    return await answer(MlflowRequest(request, context, path, scope=scope, by=principal.title))


async def answer(asked: MlflowRequest) -> Response:
    """Answers a request; errors have MLflow's form."""
    try:
        return await _answer(replace(asked, path=asked.path.removeprefix("ajax-")))
    except ClientDisconnect:
        raise
    except (MlflowRefusal, DrumbeatError, HTTPException) as error:
        return response(error)
    except Exception as error:  # noqa: BLE001 (the client must read of a defect in MLflow's form)
        return response(error)


async def _answer(asked: MlflowRequest) -> Response:
    if asked.method == "GET" and asked.path in ("health", "version"):
        return PlainTextResponse("OK" if asked.path == "health" else VERSION)
    if asked.path.startswith(_FILES):
        return await _file(asked, asked.path.removeprefix(_FILES).strip("/"))
    if asked.method == "GET" and asked.path == "get-artifact":
        call = asked.call(_query(asked.request))
        return await away(lambda: _served(call, artifacts.run_path(call)))
    route = find(asked.method, asked.path)
    if asked.path in _READS:
        await away(asked.context.control.metrics.settle)
    call = asked.call(await _arguments(asked.request) | route.parts)
    return JSONResponse(await away(lambda: route.handler(call)))


async def _arguments(request: Request) -> JsonObject:
    query = _query(request)
    if request.method == "GET":
        return query
    body = await request.body()
    return query | (await read_json(body, lambda read: read, "\ufffd") if body.strip() else {})


def _query(request: Request) -> JsonObject:
    query: dict[str, Any] = {}
    for key, value in request.query_params.multi_items():
        if key in _LISTS and key in query:
            before = query[key]
            query[key] = [*before, value] if isinstance(before, list) else [before, value]
        else:
            query[key] = value
    return query


async def _file(asked: MlflowRequest, path: str) -> Response:
    """Answers GET, PUT and DELETE of one artifact."""
    call = asked.call({"path": path})
    match asked.method:
        case "GET":
            return await away(lambda: _served(call, path))
        case "PUT":
            job = asked.request.query_params.get("job", "")
            # drumbeat's client names the job, because a waiting job may have no run yet.
            if job and (asked.scope is None or asked.scope.owns_job(job)):
                await away(lambda: asked.context.control.metrics.ensured_run(job))
            place = await away(lambda: artifacts.own_artifact_place(call, path))
            pieces = BodyReader(asked.request.stream())
            await to_thread.run_sync(lambda: call.files.put(*place, pieces), limiter=UPLOADS)
            return JSONResponse({})
        case "DELETE":
            return JSONResponse(await away(lambda: artifacts.remove(call)))
        case _:
            raise MlflowRefusal("ENDPOINT_NOT_FOUND", "Artifacts support GET, PUT and DELETE.")


def _served(call: Call, path: str) -> Response:
    if path.startswith(f"{REGISTERED}/"):
        uri, file = artifacts.registered_file(call, path)
        return StreamingResponse(call.models.data.read(uri, file), headers={"content-length": str(file.size)})
    place, status = artifacts.located(call, path)
    if not S_ISREG(status.st_mode):
        raise missing(f"No such artifact: '{path[:300]}'")
    etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
    return ServedFile(place, status.st_size, etag).response(ByteRange(0, status.st_size), is_part=False, has_body=True)
