"""What a request of a user's asks of a node: it waits for the agent's answer without keeping a thread."""

from __future__ import annotations

import asyncio

from drumbeat.model.errors import UnreachableError
from drumbeat.server.context import ServerContext, away
from drumbeat.server.nodes.node_requests import Answer

ANSWER_S = 30.0
CUT_OFF = "See with `drumbeat show` whether it is cut off, and try again."


async def ask_node(
    context: ServerContext, job: str, node: int, kind: str, fields: dict[str, str] | None = None, *,
    timeout_s: float = ANSWER_S,
) -> Answer:  # fmt: skip
    """The answer of a node's agent.

    Raises NotFoundError, RefusedError and ConflictError as `NodeRequests.ask` does, the error that the agent answers
    with, and UnreachableError without an answer in that time.
    """
    requests = context.control.node_requests
    pending = await away(lambda: requests.ask(job, node, kind, fields))
    try:
        return await asyncio.wait_for(asyncio.wrap_future(pending.answer), timeout_s)
    except TimeoutError:
        what = f"node {node} of job {job} gave no answer within {timeout_s:g} s"
        raise UnreachableError(what, fix=CUT_OFF) from None
    finally:
        requests.forget(pending)


async def ask_nodes(
    context: ServerContext, job: str, kind: str, fields: dict[str, str] | None = None, *, timeout_s: float = ANSWER_S
) -> list[Answer | Exception]:
    """The answers of all nodes, in their order; an error in the place of one that has none.

    Raises NotFoundError for an unknown job.
    """
    nodes = await away(lambda: context.control.loop.record(job).job.plan.nodes)
    asked = [ask_node(context, job, node, kind, fields, timeout_s=timeout_s) for node in range(nodes)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    return [one if isinstance(one, dict | Exception) else Exception(one) for one in answers]
