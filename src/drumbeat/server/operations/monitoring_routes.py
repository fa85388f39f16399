"""The addresses that monitoring asks: `/metrics`, `/healthz`, `/readyz`."""

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

# Whether a server is alive, and whether it is ready to take jobs.

MAX_BEAT_AGE_S = 15.0
"""The loop renews its lease every 0.5 s; a store that doesn't answer, or a loop that stands still, delays it."""


@dataclass(frozen=True)
class Check:
    """A thing that must be so. problem: what is wrong, "" = nothing. It is shown to anybody, and names no path."""

    name: str
    problem: str


def liveness(control: Control) -> list[Check]:
    """Returns what a supervisor restarts a server for: its control loop stands still."""
    return [Check("loop", "" if control.loop.is_running else "the control loop's thread has ended")]


def readiness(control: Control, folder: str) -> list[Check]:
    """Returns what keeps a server from taking jobs. folder: the one that it writes to."""
    return [
        *liveness(control),
        Check("lease", _lease(control)),
        Check("store", _problem(control.store.other_servers)),
        Check("disk", "" if os.access(folder, os.W_OK) else "the server's folder can't be written to"),
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
    return _view(liveness(context.control), response)


@router.get("/readyz", responses={503: {"model": HealthView}})
async def show_readiness(context: ContextOf, response: Response) -> HealthView:
    """Whether the server can take jobs; 503 = not now. It needs no token."""
    return _view(await away(lambda: readiness(context.control, context.folder)), response)


def _view(checks: list[Check], response: Response) -> HealthView:
    problems = {check.name: check.problem for check in checks if check.problem}
    response.status_code = 503 if problems else 200
    return HealthView("failing" if problems else "ok", problems)
