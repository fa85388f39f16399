"""The application: routes, guards and handlers around a control room."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext

from fastapi import FastAPI

from drumbeat._version import __version__
from drumbeat.protocol.principal import Principal
from drumbeat.server import errors
from drumbeat.server.access.callers import Callers
from drumbeat.server.access.home_token import user_of_server
from drumbeat.server.access.page_sessions import PageSessions
from drumbeat.server.access.request_guard import Guard
from drumbeat.server.access.request_sizes import TrafficMeter
from drumbeat.server.access.response_compression import Compression
from drumbeat.server.access.standby_guard import StandbyGuard
from drumbeat.server.agent_api import inputs, programs, sync, tunnels
from drumbeat.server.agent_api import metrics as agent_metrics
from drumbeat.server.api import (
    aliases,
    computes,
    exec_sessions,
    job_events,
    job_files,
    job_logs,
    jobs,
    ledger,
    metrics,
    monitoring,
    nodes,
    page_events,
    page_sessions,
    pipelines,
    quotas,
    resources,
    server_info,
    services,
    space,
    store_files,
    sweeps,
    tokens,
)
from drumbeat.server.context import ServerContext
from drumbeat.server.mlflow import service as mlflow
from drumbeat.server.openapi_description import add_routes, describe
from drumbeat.server.operations.process_metrics import Operations
from drumbeat.server.operations.request_times import RequestTimes
from drumbeat.server.page import routes as page
from drumbeat.server.services.ports import ServicePorts


def make_app(context: ServerContext, *, token: str, hosts: frozenset[str]) -> FastAPI:
    """The app. token: of the server's home. hosts: what `Host` may say (`request_guard.allowed_hosts`)."""
    app = FastAPI(
        title="drumbeat", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/v1/openapi.json",
        lifespan=_lifespan, redirect_slashes=False,
    )  # fmt: skip
    describe(app)
    app.state.context = context
    context.sessions = PageSessions(token)
    context.folder = context.folder or context.identity.home
    operations = context.operations = Operations(context.control, context.folder)

    def find(digest: str) -> Principal | None:
        # Late: the API's description is made without a control room.
        return context.control.tokens.principal(digest)

    def check(job: str, attempt: int, node: int, secret: str) -> None:
        context.control.secrets.check(job, attempt, node, secret)

    def require_own(principal: Principal, job: str) -> None:
        context.control.job_persons.require_own(principal, job)

    context.callers = Callers(token, user_of_server(), find)
    context.services = ServicePorts(token, context.callers, hosts, context.service_host, require_own)
    for part in (
        server_info, jobs, job_logs, job_events, job_files, aliases, computes,
        store_files, space, sweeps, pipelines, exec_sessions, services, metrics, ledger, nodes, page_events,
        monitoring, tokens, quotas, page_sessions, page, sync, programs, tunnels, inputs, agent_metrics, mlflow,
    ):  # fmt: skip
        add_routes(app, part.router)
    for router in resources.ROUTERS.values():
        add_routes(app, router)
    errors.install(app)
    # The last one added stands outermost: nobody unknown reaches anything.
    app.add_middleware(Compression)
    app.add_middleware(TrafficMeter, traffic=context.traffic)
    app.add_middleware(RequestTimes, times=operations.requests)
    app.add_middleware(StandbyGuard, is_active=context.is_active, active_url=context.active_url)
    app.add_middleware(
        Guard, callers=context.callers, hosts=hosts, check=check, sessions=context.sessions, require_own=require_own
    )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None]:
    context: ServerContext = app.state.context
    context.fanout.open(context.control.bus)
    with context.operations.counting() if context.operations else nullcontext():
        yield
    context.fanout.close()
    await context.tunnels.close()
    if context.services:
        await context.services.close()
