"""Routes for services of running jobs: links that open them in a browser."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

from fastapi import Query, Request

from drumbeat.launchers.services import JUPYTER_LAB, has_process, is_web, jupyter_token, services_on
from drumbeat.model.api.sessions import ServiceLinkView
from drumbeat.model.errors import ConflictError, DrumbeatError, NotFoundError, RefusedError
from drumbeat.model.plan import ServicePlan
from drumbeat.server.access.page_sessions import LINK_LIFETIME_S
from drumbeat.server.access.request_guard import values
from drumbeat.server.context import ContextOf, ServerContext, away, digest_of_caller
from drumbeat.server.loop.bus import job_topic
from drumbeat.server.nodes.tunnel_opening import CHECK_INTERVAL_S, attempt_of, open_to_service
from drumbeat.server.nodes.tunnels import Tunnel
from drumbeat.server.routing import new_router
from drumbeat.server.services.ports import ServicePorts
from drumbeat.server.services.service_access import ServiceKey

router = new_router("/api/v1/jobs", tags=["jobs"])


@router.post("/{job}/services/{service}/links", status_code=201)
async def create_service_link(
    job: str,
    service: str,
    context: ContextOf,
    request: Request,
    node: Annotated[int, Query(ge=0, description="The node of the service.")] = 0,
) -> ServiceLinkView:
    """Creates a link that opens a service of a running job in a browser, once.

    The service has a port of its own on the server, and the browser gets a cookie for it. A program may send its token
    in `Authorization` to the same port instead.
    """
    ports = context.services
    if ports is None:
        raise NotFoundError("this server can't open services")
    planned, secret, attempt = await away(lambda: _planned(context, job, service, node))
    token = jupyter_token(secret, service) if planned.type == JUPYTER_LAB else ""
    key, called = ServiceKey(job, service, node, attempt), values(request.scope["headers"], b"host")[0]

    async def connect(key: ServiceKey, user: str) -> Tunnel:
        return await open_to_service(context, key.job, key.node, key.service, user)

    link = await ports.link(key, called, digest_of_caller(context, request), (connect, context.tunnels.remove, token))
    _watch(context, ports, job)
    return ServiceLinkView(link, LINK_LIFETIME_S)


def _planned(context: ServerContext, job: str, name: str, node: int) -> tuple[ServicePlan, str, int]:
    """Returns the service, the secret that the attempt's nodes share, and the attempt's number.

    Raises NotFoundError, RefusedError, ConflictError.
    """
    current = context.control.loop.record(job).job
    here = {one.name: one for one in services_on(current.plan, node)} if node < current.plan.nodes else {}
    service = here.get(name)
    if service is None:
        names = ", ".join(sorted(here))
        fix = f"It has {names}." if names else ""
        raise NotFoundError(f"node {node} of job {job} has no service {name}", fix=fix)
    if not is_web(service):
        raise RefusedError(f"service {name} can't be opened in a browser", fix=f"Run: drumbeat ssh {job}")
    if current.state.is_terminal:
        raise ConflictError(f"job {job} has ended ({current.state}), and its services with it")
    status = current.nodes[node] if node < len(current.nodes) else None
    problem = next((one.problem for one in status.services if one.name == name), "") if status else ""
    if problem and has_process(service):
        raise ConflictError(f"service {name} of job {job} {problem}", where=f"node {node}")
    return service, context.control.secrets.of_peers(current), current.attempt


def _watch(context: ServerContext, ports: ServicePorts, job: str) -> None:
    """Closes the ports of a job at the end of the job or the attempt, whose shared secret they use."""
    if job not in ports.watches:
        ports.watches[job] = task = asyncio.create_task(_end_with(context, ports, job))
        task.add_done_callback(lambda _: ports.watches.pop(job, None))


async def _end_with(context: ServerContext, ports: ServicePorts, job: str) -> None:
    with context.fanout.signal(job_topic(job)) as signal:
        while not context.fanout.is_closing and job in ports.jobs:
            with suppress(DrumbeatError):
                await ports.keep(job, await away(lambda: attempt_of(context, job)))
            await signal.wait(CHECK_INTERVAL_S)
