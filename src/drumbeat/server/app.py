"""The ASGI application: the routes and middleware over a `Control`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext

from fastapi import FastAPI

from drumbeat._version import __version__
from drumbeat.model.principal import Principal
from drumbeat.server import errors
from drumbeat.server.access.callers import Callers
from drumbeat.server.access.era_guard import EraGuard
from drumbeat.server.access.home_token import user_of_server
from drumbeat.server.access.page_sessions import PageSessions
from drumbeat.server.access.request_guard import Guard
from drumbeat.server.access.request_sizes import TrafficMeter
from drumbeat.server.access.response_compression import Compression
from drumbeat.server.access.signed_tokens import SignedTokens
from drumbeat.server.access.standby_guard import StandbyGuard
from drumbeat.server.azure import session_routes as azure
from drumbeat.server.computes import routes as computes
from drumbeat.server.context import ServerContext
from drumbeat.server.data import store_file_routes as store_files
from drumbeat.server.endpoints import routes as endpoints
from drumbeat.server.jobs import event_routes as job_events
from drumbeat.server.jobs import file_routes as job_files
from drumbeat.server.jobs import ledger_routes as ledger
from drumbeat.server.jobs import log_routes as job_logs
from drumbeat.server.jobs import routes as jobs
from drumbeat.server.metrics import routes as metrics
from drumbeat.server.metrics.mlflow import service as mlflow
from drumbeat.server.metrics.run_table import routes as run_table
from drumbeat.server.models import routes as models
from drumbeat.server.nodes import routes as nodes
from drumbeat.server.nodes.agent_api import environments, inputs, programs, sync, tunnels
from drumbeat.server.nodes.agent_api import metrics as agent_metrics
from drumbeat.server.openapi_description import add_routes, describe
from drumbeat.server.operations import monitoring_routes as monitoring
from drumbeat.server.operations import server_info
from drumbeat.server.operations.process_metrics import Operations
from drumbeat.server.operations.request_times import RequestTimes
from drumbeat.server.page import event_routes as page_events
from drumbeat.server.page import routes as page
from drumbeat.server.page import session_routes as page_sessions
from drumbeat.server.pipelines import routes as pipelines
from drumbeat.server.resources import alias_routes as aliases
from drumbeat.server.resources import routes as resources
from drumbeat.server.schedules import routes as schedules
from drumbeat.server.services import exec_sessions
from drumbeat.server.services import routes as services
from drumbeat.server.services.ports import ServicePorts
from drumbeat.server.sign_in import routes as sign_in
from drumbeat.server.space import routes as space
from drumbeat.server.sweeps import routes as sweeps
from drumbeat.server.users import routes as users


def make_app(context: ServerContext, *, token: str, hosts: frozenset[str]) -> FastAPI:
    """Creates the app. token: of the server's home. hosts: accepted `Host` headers (`request_guard.allowed_hosts`)."""
    app = FastAPI(
        title="drumbeat", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/v1/openapi.json",
        lifespan=_lifespan, redirect_slashes=False,
    )  # fmt: skip
    describe(app)
    app.state.context = context
    context.sessions, context.azure_tokens = PageSessions(token), SignedTokens(token)
    context.folder = context.folder or context.identity.home
    operations = context.operations = Operations(context.control, context.folder)

    def find(digest: str) -> Principal | None:
        # Read late, because the description of the API is generated without a `Control`.
        return context.control.tokens.principal(digest)

    def check(job: str, attempt: int, node: int, secret: str) -> None:
        context.control.secrets.check(job, attempt, node, secret)

    def require_own(principal: Principal, job: str) -> None:
        context.control.job_users.require_own(principal, job)

    def user_of(job: str) -> str:
        return context.control.job_users.user_of(job)

    context.callers = Callers(token, user_of_server(), find)
    if context.sign_in:
        context.sign_in.on_change = context.callers.forget
    context.services = ServicePorts(token, context.callers, hosts, context.service_host, require_own, context.tls)
    for part in (
        sync, server_info, jobs, job_logs, job_events, job_files, aliases, computes,
        store_files, space, sweeps, pipelines, exec_sessions, services, metrics, run_table, ledger, nodes, page_events,
        monitoring, users, page_sessions, sign_in, page, programs, tunnels, inputs, environments, agent_metrics, mlflow,
        azure, models, endpoints, schedules,
    ):  # fmt: skip
        add_routes(app, part.router)
    for router in resources.ROUTERS.values():
        add_routes(app, router)
    errors.install(app)
    # The middleware that is added last is outermost, so that unknown callers reach nothing else.
    app.add_middleware(Compression)
    app.add_middleware(TrafficMeter, traffic=context.traffic)
    app.add_middleware(RequestTimes, times=operations.requests)
    app.add_middleware(StandbyGuard, is_active=context.is_active, active_url=context.active_url)
    app.add_middleware(EraGuard, era=context.era)
    app.add_middleware(
        Guard,
        callers=context.callers,
        hosts=hosts,
        check=check,
        sessions=context.sessions,
        require_own=require_own,
        user_of=user_of,
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
