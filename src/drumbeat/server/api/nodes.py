"""The nodes of a running job: what their agents answer when they are asked."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from drumbeat.protocol.api.nodes import NodeProcesses
from drumbeat.protocol.wire import from_wire
from drumbeat.server.context import ContextOf, ServerContext, away
from drumbeat.server.node_requests import ask_nodes

router = APIRouter(prefix="/api/v1", tags=["jobs"])


@router.get("/jobs/{job}/processes")
async def list_processes(job: str, context: ContextOf) -> list[NodeProcesses]:
    """The processes of a running job: of each node the agent's, the keeper's, and the first of each rank."""
    answers = await ask_nodes(context, job, "processes")
    hosts = await away(lambda: hosts_of(context, job))
    return [_view(node, host, answer) for node, (host, answer) in enumerate(zip(hosts, answers, strict=True))]


def hosts_of(context: ServerContext, job: str) -> list[str]:
    """The machine of each node, "" = its agent hasn't come yet."""
    current = context.control.loop.record(job).job
    said = [*current.nodes, *[None] * current.plan.nodes][: current.plan.nodes]
    return [one.member.host if one else "" for one in said]


def _view(node: int, host: str, answer: dict[str, Any] | Exception) -> NodeProcesses:
    if isinstance(answer, Exception):
        return NodeProcesses(node, host, error=str(answer))
    return from_wire(NodeProcesses, {**answer, "node": node, "host": host}, "processes")
