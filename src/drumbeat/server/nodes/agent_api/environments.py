"""What agents ask and send of environments that one node makes and others take over."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from fastapi import Header, Query, Request
from fastapi import Path as InPath
from starlette.responses import Response

from drumbeat.core.lifecycle.job import Job
from drumbeat.model import small_file_bundles
from drumbeat.model.errors import RefusedError
from drumbeat.model.wire import from_wire, to_wire
from drumbeat.server.context import away, current
from drumbeat.server.environments.handed_environments import HandedEnvironments, MakerState
from drumbeat.server.environments.leases import NodeName
from drumbeat.server.json_bodies import read_json
from drumbeat.server.nodes.agent_api.sync import BODY, JSON_BODY, PREFIX, Admitted, Caller, Offset
from drumbeat.server.routing import new_router

router = new_router(f"{PREFIX}/environments/{{key}}", tags=["agents"])

T = TypeVar("T")

Digest = Annotated[str, InPath(pattern=r"^[0-9a-f]{64}$")]
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})", re.ASCII)
MAX_READ = 8 << 20
"""Bytes of one answer; a longer range is cut off."""


@router.post("", openapi_extra=JSON_BODY, response_model=dict[str, Any])
async def ask_for_environment(key: str, caller: Admitted, request: Request) -> dict[str, Any]:
    """Takes `{progress, rejected, has_it}`, returns `{environment}`: whether the node makes it, waits, or takes it."""
    state = await read_json(await request.body(), _asked)
    node = NodeName(caller.job, caller.attempt, caller.node)
    answer = await _with(caller, lambda all_, job: all_.ask(job, node, key, state))
    return {"environment": to_wire(answer)}


@router.delete("", response_model=dict[str, Any])
async def give_up_environment(key: str, caller: Admitted) -> dict[str, Any]:
    """The node makes it no more."""
    node = NodeName(caller.job, caller.attempt, caller.node)
    await _with(caller, lambda all_, job: all_.give_up(job, node, key))
    return {"missing": []}


@router.put("/manifest", openapi_extra=BODY, response_model=dict[str, list[str]])
async def put_environment_manifest(key: str, caller: Admitted, request: Request) -> dict[str, list[str]]:
    """Takes the packed manifest of what the node has made; answers the contents that the server lacks."""
    body, node = await request.body(), NodeName(caller.job, caller.attempt, caller.node)
    return {"missing": await _with(caller, lambda all_, job: all_.offer(job, node, key, body))}


@router.get("/manifest", response_class=Response)
async def get_environment_manifest(
    key: str, caller: Admitted, digest: Annotated[str, Query(max_length=64)]
) -> Response:
    """The packed manifest of that SHA-256."""
    packed = await _with(caller, lambda all_, job: all_.manifest(job, key, digest))
    return Response(packed, media_type="application/zlib")


@router.post("/commit", response_model=dict[str, list[str]])
async def commit_environment(key: str, caller: Admitted) -> dict[str, list[str]]:
    """The node has sent all contents; answers those that are missing."""
    return {"missing": await _with(caller, lambda all_, job: all_.commit(job, key))}


@router.put("/contents", openapi_extra=BODY, response_model=dict[str, list[str]])
async def put_environment_contents(key: str, caller: Admitted, request: Request) -> dict[str, list[str]]:
    """Takes small contents, many at a time."""
    try:
        contents = small_file_bundles.received(await request.body())
    except ValueError as error:
        raise RefusedError(f"the contents of an environment can't be read: {error}") from None
    await _with(caller, lambda all_, job: all_.add(job, key, contents))
    return {"missing": []}


@router.post("/contents", openapi_extra=BODY, response_class=Response)
async def get_environment_contents(key: str, caller: Admitted, request: Request) -> Response:
    """Small contents, many at a time: those of the named ones that are there."""
    try:
        sizes = small_file_bundles.names(await request.body())
    except ValueError as error:
        raise RefusedError(f"{error}") from None
    files = await _with(caller, lambda all_, job: all_.read_some(job, key, sizes))
    return Response(small_file_bundles.answer(sizes, files), media_type="application/octet-stream")


@router.put("/contents/{digest}", openapi_extra=BODY, response_model=dict[str, int])
async def put_environment_content(
    key: str, digest: Digest, offset: Offset, caller: Admitted, request: Request
) -> dict[str, int]:
    """Adds to a large content; answers how much of it is there."""
    body = await request.body()
    return {"size": await _with(caller, lambda all_, job: all_.append(job, key, digest, offset, body))}


@router.get("/contents/{digest}", response_class=Response)
async def get_environment_content(
    key: str, digest: Digest, caller: Admitted, range: Annotated[str, Header()]
) -> Response:
    """A range of a large content."""
    match = _RANGE.fullmatch(range)
    if match is None or int(match[2]) < int(match[1]):
        raise RefusedError("this range can't be read", where="Range", fix="Write it like bytes=0-1023.")
    offset, length = int(match[1]), min(MAX_READ, int(match[2]) + 1 - int(match[1]))
    data = await _with(caller, lambda all_, job: all_.read(job, key, digest, offset, length))
    span = {"Content-Range": f"bytes {offset}-{max(0, offset + len(data) - 1)}/*"}
    return Response(data, 206, span, "application/octet-stream")


async def _with(caller: Caller, call: Callable[[HandedEnvironments, Job], T]) -> T:
    control = caller.context.control
    return await away(lambda: call(control.environments, current(control, caller.job).job))


def _asked(body: dict[str, Any]) -> MakerState:
    try:
        state = from_wire(MakerState, body)
    except ValueError as error:
        raise RefusedError(f"{error}") from None
    return replace(state, progress=state.progress[:200])
