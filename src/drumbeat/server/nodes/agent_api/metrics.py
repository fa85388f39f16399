"""What nodes send of metrics: lines of their spools, and what MLflow's clients ask that only the server answers."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from fastapi import Header, Request, Response

from drumbeat.model.metrics import Source
from drumbeat.server.access import audit
from drumbeat.server.context import away
from drumbeat.server.metrics.mlflow.service import METHODS, RANK, MlflowRequest, answer
from drumbeat.server.metrics.mlflow.write_scope import scope_of_job
from drumbeat.server.nodes.agent_api.sync import BODY, PREFIX, Admitted, Offset, Speaking
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest

if TYPE_CHECKING:
    from starlette.types import Scope

router = new_router(PREFIX, tags=["agents"])


@router.post("/metrics", openapi_extra=BODY)
async def post_metrics(offset: Offset, caller: Speaking, request: Request) -> dict[str, int]:
    """Keeps the records in whole lines of a spool; answers `{offset}`, up to where the spool's records are kept.

    An offset beyond that is answered with it, and nothing is kept. An attempt that was
    replaced may still send until the job ends, and a node that was cut off for an hour after that.
    """
    lines = await request.body()
    source = Source(caller.job, caller.attempt, caller.node)
    metrics = caller.context.control.metrics
    taken = await away(lambda: metrics.take(source, caller.secret, offset, lines))
    if taken.foreign:
        audit.note_node(caller.job, caller.node, request.scope, HTTPStatus.FORBIDDEN)
    return {"offset": taken.offset}


@router.api_route("/mlflow/" + rest("path"), methods=METHODS, include_in_schema=False)
async def ask_mlflow_from_node(
    path: str, caller: Admitted, request: Request, rank: Annotated[int, Header(alias=RANK, ge=0, le=10**9)] = 0
) -> Response:
    """Answers one request of a rank's MLflow client. The run of its job exists from the first of them on.

    The job changes what is its own; what it is refused, and what it changes of models and experiments, is audited.
    """
    control = caller.context.control
    await away(lambda: control.metrics.ensured_run(caller.job))
    scope = await away(lambda: scope_of_job(control.loop, caller.job))
    answered = await answer(MlflowRequest(request, caller.context, path, rank, scope))
    if answered.status_code == HTTPStatus.FORBIDDEN or audit.is_noted(_as_users(request, path)):
        audit.note_node(caller.job, caller.node, request.scope, answered.status_code)
    return answered


def _as_users(request: Request, path: str) -> Scope:
    """The request as a user would send it: the audit log tells by its path whether it matters."""
    return {**request.scope, "path": f"/mlflow/{path}"}
