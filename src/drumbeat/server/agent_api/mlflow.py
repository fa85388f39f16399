"""MLflow's protocol for the endpoint of a node, which asks here what it doesn't answer itself."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Request, Response

from drumbeat.server.agent_api.sync import PREFIX, Admitted
from drumbeat.server.context import away
from drumbeat.server.mlflow.service import METHODS, RANK, MlflowRequest, answer
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest

router = new_router(PREFIX, include_in_schema=False)


@router.api_route("/mlflow/" + rest("path"), methods=METHODS)
async def ask_mlflow_from_node(
    path: str, caller: Admitted, request: Request, rank: Annotated[int, Header(alias=RANK, ge=0, le=10**9)] = 0
) -> Response:
    """Answers one request of a rank's MLflow client. The run of its job exists from the first of them on."""
    await away(lambda: caller.context.control.metrics.run_of(caller.job))
    return await answer(MlflowRequest(request, caller.context, path, rank))
