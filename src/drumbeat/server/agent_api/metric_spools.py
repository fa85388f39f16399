"""Records of metrics as nodes forward them: whole lines of their spools, by offset."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Request

from drumbeat.protocol.metrics import Source
from drumbeat.server.access import audit
from drumbeat.server.agent_api.sync import BODY, PREFIX, Offset, Speaking
from drumbeat.server.context import away
from drumbeat.server.routing import new_router

router = new_router(PREFIX, tags=["agents"])


@router.post("/metrics", openapi_extra=BODY)
async def post_metrics(offset: Offset, caller: Speaking, request: Request) -> dict[str, int]:
    """Keeps the records in whole lines of a spool; answers `{offset}`, up to where the spool's records are kept.

    An offset beyond that is answered with it, and nothing is kept. An attempt that was
    replaced may still send until the job ends, and a node that was cut off for an hour after that.
    """
    lines = await request.body()
    source = Source(caller.job, caller.attempt, caller.node)
    metrics = caller.context.control.metrics
    taken = await away(lambda: metrics.take(source, caller.secret, offset, lines))
    if taken.foreign:
        audit.note_node(caller.job, caller.node, request.scope, HTTPStatus.FORBIDDEN)
    return {"offset": taken.offset}
