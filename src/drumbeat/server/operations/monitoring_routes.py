"""The addresses that monitoring asks: `/metrics`, `/healthz`, `/readyz`."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Response

from drumbeat.server.context import ContextOf, away
from drumbeat.server.operations import health
from drumbeat.server.operations.metric_table import CONTENT_TYPE
from drumbeat.server.routing import new_router

router = new_router(tags=["operations"])


@dataclass(frozen=True)
class HealthView:
    """The state of a server. problems: by check, what is wrong; empty when all is well."""

    status: str
    problems: dict[str, str]


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def expose_metrics(context: ContextOf) -> Response:
    """The server's metrics in Prometheus' text format. It needs the API token, as a bearer token."""
    operations = context.operations
    content = await away(operations.text) if operations else b""
    return Response(content, media_type=CONTENT_TYPE)


@router.get("/healthz", responses={503: {"model": HealthView}})
def show_health(context: ContextOf, response: Response) -> HealthView:
    """Whether the server is alive; 503 = it must be started again. It needs no token."""
    return _view(health.liveness(context.control), response)


@router.get("/readyz", responses={503: {"model": HealthView}})
async def show_readiness(context: ContextOf, response: Response) -> HealthView:
    """Whether the server can take jobs; 503 = not now. It needs no token."""
    return _view(await away(lambda: health.readiness(context.control, context.folder)), response)


def _view(checks: list[health.Check], response: Response) -> HealthView:
    problems = {check.name: check.problem for check in checks if check.problem}
    response.status_code = 503 if problems else 200
    return HealthView("failing" if problems else "ok", problems)
