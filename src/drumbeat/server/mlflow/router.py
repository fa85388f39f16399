"""MLflow's protocol below `/mlflow`: `MLFLOW_TRACKING_URI=http://host:port/mlflow`, the API token as its token."""

from __future__ import annotations

from fastapi import Request, Response

from drumbeat.server.context import ContextOf, PrincipalOf
from drumbeat.server.mlflow.service import METHODS, MlflowRequest, answer
from drumbeat.server.mlflow.write_scope import scope_of_person
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest

ROOT = "/mlflow"
router = new_router(ROOT, include_in_schema=False)


@router.api_route("/" + rest("path"), methods=METHODS)
async def ask_mlflow(path: str, request: Request, context: ContextOf, principal: PrincipalOf) -> Response:
    """Answers one request of an MLflow client."""
    scope = scope_of_person(context.control.loop, principal)
    return await answer(MlflowRequest(request, context, path, scope=scope))
