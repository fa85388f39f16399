"""What agents ask when they bring a job's inputs to their nodes: the files, where to fetch them, who else has them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any, TypeVar, cast

from anyio import fail_after, move_on_after, to_thread
from fastapi import Header, Request
from starlette.responses import Response, StreamingResponse

from drumbeat.model.errors import RefusedError, UnreachableError
from drumbeat.model.wire import to_wire
from drumbeat.server.context import ServerContext, away, current
from drumbeat.server.data.inputs import Frozen
from drumbeat.server.data.single_flight import Flight
from drumbeat.server.json_bodies import read_json
from drumbeat.server.nodes.agent_api.sync import JSON_BODY, PREFIX, Admitted, Caller
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest

router = new_router(PREFIX, tags=["agents"])

T = TypeVar("T")

_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})?", re.ASCII)


@router.get("/inputs/{name}", response_model=dict[str, Any])
async def get_listing(name: str, caller: Admitted) -> Response:
    """`{listing, folder}`: every file of an input, the same for the whole life of the job; the folder of the server's
    machine that it is, "" = it is none.
    """
    inputs = caller.context.control.inputs
    job = await away(lambda: inputs.job_of(caller.job))
    with inputs.asked(job, name) as making:
        await _made(name, making, caller.context)

    def answer() -> dict[str, Any]:
        return {"listing": to_wire(inputs.listing(caller.job, name)), "folder": inputs.folder(caller.job, name)}

    return await away(lambda: _json(answer()), caller.context.stores)


@router.post("/inputs/{name}/links", openapi_extra=JSON_BODY, response_model=dict[str, Any])
async def make_links(name: str, caller: Admitted, request: Request) -> Response:
    """Takes `{paths}`, returns `{links}`: an address for each file, null for one to be fetched from the server."""
    inputs, paths = caller.context.control.inputs, await read_json(await request.body(), _paths)
    answer = lambda: _json({"links": to_wire(inputs.links(caller.job, name, paths))})  # noqa: E731 - it runs in a thread
    return await _in_time(f"input {name}", answer, caller.context)


@router.get("/outputs/{name}/link")
async def make_output_link(name: str, caller: Admitted) -> dict[str, Any]:
    """`{links}`: the one at which the ranks write an output themselves."""
    direct = caller.context.control.direct
    return {"links": [to_wire(await _in_time(f"output {name}", lambda: direct.link(caller.job, name), caller.context))]}


@router.get("/inputs/{name}/files/" + rest("path"), response_class=StreamingResponse)
async def get_input_file(
    name: str, path: str, caller: Admitted, range: Annotated[str, Header()] = "bytes=0-"
) -> StreamingResponse:
    """The bytes of one file of an input, or a range of them."""
    offset, length = _span(range)
    size, pieces = await _in_time(f"input {name}", lambda: _read(caller, name, path, (offset, length)), caller.context)
    headers = {"Content-Length": str(size), "Content-Range": f"bytes {offset}-{max(0, offset + size - 1)}/*"}
    return StreamingResponse(_streamed(name, pieces, caller.context), 206, headers, "application/octet-stream")


@router.get("/peers")
async def get_peers(caller: Admitted) -> dict[str, Any]:
    """`{peers}`: for each node of the attempt what its agent reported of itself, null before its first report."""
    job = (await away(lambda: current(caller.context.control, caller.job))).job
    return {"peers": [to_wire(status.member) if status else None for status in job.nodes]}


def _json(body: dict[str, Any]) -> Response:
    """Serializes without FastAPI, which would validate each of very many values again."""
    return Response(json.dumps(body, separators=(",", ":")), media_type="application/json")


def _read(caller: Caller, name: str, path: str, span: tuple[int, int | None]) -> tuple[int, Iterator[bytes]]:
    return caller.context.control.inputs.read(caller.job, name, path, span)


async def _streamed(name: str, pieces: Iterator[bytes], context: ServerContext) -> AsyncGenerator[bytes]:
    while (piece := await _in_time(f"input {name}", lambda: next(pieces, None), context)) is not None:
        yield piece


async def _made(name: str, making: Flight[Frozen], context: ServerContext) -> None:
    """Waits for the list of an input; a store that isn't done yet is said so, before the node takes the server for
    silent. No thread waits meanwhile: the nodes of a job may be many.
    """
    is_done, loop = asyncio.Event(), asyncio.get_running_loop()

    def ring() -> None:
        with suppress(RuntimeError):  # The server has stopped meanwhile.
            loop.call_soon_threadsafe(is_done.set)

    making.on_done(ring)
    with move_on_after(context.silent_s):
        await is_done.wait()
    if not making.is_done:
        raise UnreachableError(
            f"input {name}: its store is still asked for the list of its files ({making.age_s:.0f} s)"
        )
    making.result()


async def _in_time(what: str, call: Callable[[], T], context: ServerContext) -> T:
    """Answers before the node's timeout when a store is slow. The call itself runs to its end."""
    try:
        with fail_after(context.silent_s):
            return await to_thread.run_sync(call, limiter=context.stores, abandon_on_cancel=True)
    except TimeoutError:
        where = what.replace(" ", "s.", 1)
        sentence = f"{what}: its store has sent nothing for {context.silent_s:.0f} s"
        raise UnreachableError(sentence, where=where) from None


def _span(header: str) -> tuple[int, int | None]:
    match = _RANGE.fullmatch(header)
    if match is None or (match[2] and int(match[2]) < int(match[1])):
        raise RefusedError("this range can't be read", where="Range", fix="Write it like bytes=0-1023.")
    return int(match[1]), int(match[2]) + 1 - int(match[1]) if match[2] else None


def _paths(body: dict[str, Any]) -> list[str]:
    paths: object = body.get("paths")
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in cast("list[object]", paths)):
        raise RefusedError('expected {"paths": [path, …]}', where="paths")
    return cast("list[str]", paths)
