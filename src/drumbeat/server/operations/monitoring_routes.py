"""Routes for monitoring: `/metrics`, `/healthz`, `/readyz`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Response

from drumbeat.model.errors import DrumbeatError
from drumbeat.server.context import ContextOf, away
from drumbeat.server.control import Control
from drumbeat.server.operations.metric_table import CONTENT_TYPE
from drumbeat.server.routing import new_router

# Liveness and readiness of a server.

MAX_BEAT_AGE_S = 15.0
"""The loop renews its lease every 0.5 s, unless the database doesn't answer or the loop hangs."""


@dataclass(frozen=True)
class Check:
    """A health check. problem: "" = healthy. It is public, so it mustn't contain paths."""

    name: str
    problem: str


def liveness(control: Control) -> list[Check]:
    """Returns the checks whose failure requires a restart: the control loop has ended."""
    return [Check("loop", "" if control.loop.is_running else "the control loop's thread has ended")]


def readiness(control: Control, folder: str) -> list[Check]:
    """Returns the checks for whether the server can accept jobs. folder: the one that it writes to."""
    return [
        *liveness(control),
        Check("lease", _lease(control)),
        Check("store", _problem(control.store.other_servers)),
        Check("disk", "" if os.access(folder, os.W_OK) else "the server's folder isn't writable"),
    ]


def _lease(control: Control) -> str:
    if not control.is_active:
        return "this server stands by; another one is active"
    age_s = control.loop.beat_age_s
    return f"the lease was last renewed {age_s:.0f} s ago" if age_s > MAX_BEAT_AGE_S else ""


def _problem(call: Callable[[], object]) -> str:
    try:
        call()
    except DrumbeatError:
        return "the database doesn't answer"
    return ""


router = new_router(tags=["operations"])


@dataclass(frozen=True)
class HealthView:
    """The health of a server. problems: by check; empty = healthy."""

    status: str
    problems: dict[str, str]


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def expose_metrics(context: ContextOf) -> Response:
    """Returns the server's metrics in Prometheus' text format. Needs the API token as a bearer token."""
    operations = context.operations
    content = await away(operations.text) if operations else b""
    return Response(content, media_type=CONTENT_TYPE)


@router.get("/healthz", responses={503: {"model": HealthView}})
def show_health(context: ContextOf, response: Response) -> HealthView:
    """Whether the server is alive; 503 = it must be restarted. Needs no token."""
    return _view(liveness(context.control), response)


@router.get("/readyz", responses={503: {"model": HealthView}})
async def show_readiness(context: ContextOf, response: Response) -> HealthView:
    """Whether the server can accept jobs; 503 = not now. Needs no token."""
    return _view(await away(lambda: readiness(context.control, context.folder)), response)


def _view(checks: list[Check], response: Response) -> HealthView:
    problems = {check.name: check.problem for check in checks if check.problem}
    response.status_code = 503 if problems else 200
    return HealthView("failing" if problems else "ok", problems)
