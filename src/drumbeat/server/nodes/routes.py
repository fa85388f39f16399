"""The nodes of a running job: what their agents answer when they are asked."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Query

from drumbeat.model.api.nodes import NodeProcesses
from drumbeat.model.api.stacks import NodeStacks
from drumbeat.model.errors import ForbiddenError, RefusedError
from drumbeat.model.principal import Role
from drumbeat.model.stacks import STACKS
from drumbeat.model.wire import from_wire
from drumbeat.server.access.permissions import ASK
from drumbeat.server.context import ContextOf, PrincipalOf, ServerContext, away
from drumbeat.server.nodes.node_answers import ask_node, ask_nodes
from drumbeat.server.nodes.stacks import JobFacts, facts_of, request_fields
from drumbeat.server.routing import new_router

router = new_router("/api/v1", tags=["jobs"])

STACKS_PAUSE_S = 0.5
"""Between two looks, by which it is known whether a rank moves."""
STACKS_TIMEOUT_S = 60.0


@router.get("/jobs/{job}/processes")
async def list_processes(job: str, context: ContextOf) -> list[NodeProcesses]:
    """The processes of a running job: of each node the agent's, the supervisor's, and the first of each rank."""
    answers = await ask_nodes(context, job, "processes")
    hosts = await away(lambda: hosts_of(context, job))
    return [_view(node, host, answer) for node, (host, answer) in enumerate(zip(hosts, answers, strict=True))]


@router.get("/jobs/{job}/stacks")
async def list_stacks(
    job: str,
    context: ContextOf,
    principal: PrincipalOf,
    rank: Annotated[int | None, Query(ge=0, description="Only this rank; every rank when absent.")] = None,
    native: Annotated[bool, Query(description="Native frames too; each rank stands still for a moment.")] = False,
) -> list[NodeStacks]:
    """What each rank of a running job does now, with the stacks of its Python processes."""
    if native and principal.role is Role.READER:
        raise ForbiddenError(
            "native frames make ranks stand still, and readers change nothing", where="native", fix=ASK
        )
    if native:
        await away(lambda: context.control.job_users.require_own(principal, job))
    current = (await away(lambda: context.control.loop.record(job))).job
    ranks = () if rank is None else (rank,)
    nodes = [one.node for one in current.plan.ranks if one.rank == rank] if ranks else [*range(current.plan.nodes)]
    if not nodes:
        raise RefusedError(f"job {job} has no rank {rank}", fix=f"Its ranks are 0 to {current.plan.world_size - 1}.")
    fields = request_fields(current, STACKS_PAUSE_S, is_native=native, ranks=ranks)
    asked = (ask_node(context, job, node, STACKS, fields, timeout_s=STACKS_TIMEOUT_S) for node in nodes)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    facts = JobFacts({node: facts_of(answer) for node, answer in zip(nodes, answers, strict=True)})
    return facts.stacks(await away(lambda: hosts_of(context, job)))


def hosts_of(context: ServerContext, job: str) -> list[str]:
    """Returns the machine of each node, "" = its agent hasn't enrolled yet."""
    current = context.control.loop.record(job).job
    statuses = [*current.nodes, *[None] * current.plan.nodes][: current.plan.nodes]
    return [one.member.host if one else "" for one in statuses]


def _view(node: int, host: str, answer: dict[str, Any] | Exception) -> NodeProcesses:
    if isinstance(answer, Exception):
        return NodeProcesses(node, host, error=str(answer))
    return from_wire(NodeProcesses, {**answer, "node": node, "host": host}, "processes")
