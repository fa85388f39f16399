"""Opens tunnels: asks the node to dial, and ends the tunnels of jobs that have ended."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass

from drumbeat.model.errors import DrumbeatError, NotFoundError, RefusedError
from drumbeat.model.principal import Role
from drumbeat.server.context import ServerContext, away
from drumbeat.server.loop.bus import job_topic
from drumbeat.server.nodes.node_answers import ask_node
from drumbeat.server.nodes.node_requests import Answer, NodeKey
from drumbeat.server.nodes.tunnels import Tunnel

CHECK_INTERVAL_S = 30.0
"""How often a job with tunnels is looked at that nothing is reported of."""


@dataclass(frozen=True)
class SessionRequest:
    """A command to run beside a rank."""

    argv: tuple[str, ...]
    rank: int | None = None
    node: int | None = None
    size: tuple[int, int] | None = None
    """Rows and columns of its terminal; None = it has none."""


async def open_session(context: ServerContext, job: str, asked: SessionRequest, user: str) -> tuple[Tunnel, Answer]:
    """Starts a command on a node, and returns the tunnel to it. Raises what `ask_node` does."""
    node = await away(lambda: node_of(context, job, asked))
    fields = {"argv": json.dumps(asked.argv), "tty": f"{asked.size[0]}x{asked.size[1]}" if asked.size else ""}
    if asked.rank is not None:
        fields["rank"] = str(asked.rank)
    return await _open(context, job, node, "session", fields, user)


async def open_to_service(context: ServerContext, job: str, node: int, service: str, user: str) -> Tunnel:
    """Connects to a service on a node. Raises what `ask_node` does."""
    tunnel, _ = await _open(context, job, node, "service", {"service": service}, user)
    return tunnel


def node_of(context: ServerContext, job: str, asked: SessionRequest) -> int:
    """The node of a session. Raises NotFoundError for an unknown job, RefusedError for a rank that it doesn't have."""
    plan = context.control.loop.record(job).job.plan
    if asked.rank is None:
        return asked.node or 0
    rank = next((one for one in plan.ranks if one.rank == asked.rank), None)
    if rank is None:
        raise RefusedError(f"job {job} has no rank {asked.rank}", fix=f"Its ranks are 0 to {plan.world_size - 1}.")
    if asked.node not in (None, rank.node):
        raise RefusedError(f"rank {asked.rank} of job {job} is on node {rank.node}, not on node {asked.node}")
    return rank.node


async def _open(
    context: ServerContext, job: str, node: int, kind: str, fields: dict[str, str], user: str
) -> tuple[Tunnel, Answer]:
    attempt = await away(lambda: context.control.loop.record(job).job.attempt)
    tunnel = context.tunnels.add(NodeKey(job, attempt, node), user)
    try:
        answer = await ask_node(context, job, node, kind, {**fields, "tunnel": tunnel.id})
    except BaseException:
        await context.tunnels.remove(tunnel)
        raise
    _watch(context, job)
    return tunnel, answer


def _watch(context: ServerContext, job: str) -> None:
    """Has the tunnels of a job end with it."""
    tunnels = context.tunnels
    if job not in tunnels.watches:
        tunnels.watches[job] = task = asyncio.create_task(_end_with(context, job))
        task.add_done_callback(lambda _: tunnels.watches.pop(job, None))


async def _end_with(context: ServerContext, job: str) -> None:
    with context.fanout.signal(job_topic(job)) as signal:
        while not context.fanout.is_closing and job in context.tunnels.jobs:
            with suppress(DrumbeatError):
                await context.tunnels.keep(job, await away(lambda: attempt_of(context, job)))
                await _end_of_removed(context, job)
            await signal.wait(CHECK_INTERVAL_S)
    if context.fanout.is_closing:
        await context.tunnels.close()


async def _end_of_removed(context: ServerContext, job: str) -> None:
    """Ends the tunnels of users whose token was removed, or is a reader's now."""
    for tunnel in context.tunnels.of_job(job):
        user = await context.callers.for_digest(tunnel.digest) if context.callers else None
        if user is None or user.role is Role.READER:
            await context.tunnels.remove(tunnel)


def attempt_of(context: ServerContext, job: str) -> int:
    """The attempt of a job that runs, -1 = it has ended."""
    try:
        current = context.control.loop.record(job).job
    except NotFoundError:
        return -1
    return -1 if current.state.is_terminal else current.attempt
