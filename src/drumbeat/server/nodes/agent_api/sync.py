"""What agents say and send. Each call carries the secret of its node; the control room knows it.

A directive is a level: an agent holds one, and its next call waits here until another is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, BinaryIO, TypeVar, cast

from fastapi import Depends, Query, Request, Response
from fastapi import Path as InPath
from starlette.responses import StreamingResponse

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.agent import AgentStatus, Directive, Order
from drumbeat.model.errors import ForbiddenError, RefusedError, StorageError, UnreachableError
from drumbeat.model.logs import LogName
from drumbeat.model.plan import Plan
from drumbeat.model.wire import from_wire
from drumbeat.server.access.request_guard import bearer
from drumbeat.server.context import ContextOf, IncompleteOutputs, ServerContext, away
from drumbeat.server.fanout import TopicSignal
from drumbeat.server.home_folder.stored_files import iter_pieces
from drumbeat.server.json_bodies import read_json
from drumbeat.server.loop.bus import gang_topic, job_topic, node_topic
from drumbeat.server.loop.work_queue import CALL_TIMEOUT_S, unanswered
from drumbeat.server.nodes.node_requests import NodeKey
from drumbeat.server.routing import answered_by, new_router
from drumbeat.server.url_paths import rest

T = TypeVar("T")

LONGEST_WAIT_S = 60.0

PREFIX = "/agent/v1/{job}/{attempt}/{node}"
router = new_router(PREFIX, tags=["agents"])

BODY: dict[str, Any] = {
    "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}
JSON_BODY: dict[str, Any] = {"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}}


@dataclass(frozen=True)
class Caller:
    """The agent of a node, with the secret it showed."""

    job: str
    attempt: int
    node: int
    secret: str
    context: ServerContext

    async def admitted(self) -> Caller:
        """Raises UnauthorizedError or StaleError unless it may still speak."""
        await away(lambda: self.context.control.agents.admit(self.job, self.attempt, self.node, self.secret))
        return self

    async def admitted_late(self) -> Caller:
        """Also lets in a node that was cut off before it had sent all its logs."""
        await away(lambda: self.context.control.agents.admit_late(self.job, self.attempt, self.node, self.secret))
        return self


async def _caller(
    request: Request,
    context: ContextOf,
    job: str,
    attempt: Annotated[int, InPath(ge=0, le=10**9)],
    node: Annotated[int, InPath(ge=0, le=10**9)],
) -> Caller:
    return Caller(job, attempt, node, bearer(request.headers.raw), context)


async def _admitted(caller: Annotated[Caller, Depends(_caller)]) -> Caller:
    return await caller.admitted()


async def _admitted_late(caller: Annotated[Caller, Depends(_caller)]) -> Caller:
    return await caller.admitted_late()


Speaking = Annotated[Caller, Depends(_caller)]
Admitted = Annotated[Caller, Depends(_admitted)]
AdmittedLate = Annotated[Caller, Depends(_admitted_late)]
Offset = Annotated[int, Query(ge=0, le=2**62)]
Hole = Annotated[int, Query(ge=0, le=1 << 42, description="Bytes of zeros that follow the body.")]
"""At most 4 TiB: its SHA-256 takes an hour."""


async def _answer_sync(request: Request) -> Response:
    path, context = request.path_params, request.app.state.context
    secret = bearer(request.headers.raw)
    return await sync(Caller(path["job"], int(path["attempt"]), int(path["node"]), secret, context), request)


@router.post("/sync", openapi_extra=JSON_BODY)
@answered_by(_answer_sync)
async def sync(caller: Speaking, request: Request) -> Response:
    """Hears `{status, holds, wait_s}`, and answers `{directive}` once it isn't the one that the agent holds.

    `requests`, the ids of those that the agent has received, asks for others, which end the wait, too. `knows_cancel`
    says that the agent's `holds` tells canceled directives from others; `takes_brief_roster`, that a roster may have
    node 0 alone, with the digest by which the agent fetches the whole one. `proof` is what the
    SHA-256 in `AgentStatus.handover` was made of: an agent that shows it is told of the job that takes over its node.
    """
    body, status = await read_json(await request.body(), lambda read: (read, _status(read)))
    if status.has_sent_logs:
        await settle_logs(caller, status)
    with caller.context.fanout.signal(gang_topic(caller.job), node_topic(caller.job, caller.node)) as signal:
        directive = await reported(caller, status)
        directive = _with_requests(caller, directive, body)
        if _key(directive, body) == body.get("holds") and not directive.requests:
            wait = DirectiveWait(signal, asyncio.get_running_loop().time() + _wait_s(body))
            directive = await another(caller, directive, wait, request, body)
    directive = await _with_next(caller, directive, body)
    is_brief = body.get("takes_brief_roster") is True
    content = caller.context.control.agents.directives.json(caller.job, directive, is_brief=is_brief)
    return Response(content, media_type="application/json")


async def reported(caller: Caller, status: AgentStatus) -> Directive:
    """Has a status taken, and gives what the agent should do. No thread waits with it: a gang reports all at once."""
    agents = caller.context.control.agents

    def begin() -> Future[Job]:
        return agents.begin_report(caller.job, caller.attempt, caller.node, caller.secret, status)

    done = await _in_memory_or_away(caller, begin)
    try:
        job = await asyncio.wait_for(asyncio.wrap_future(done), CALL_TIMEOUT_S)
    except TimeoutError:
        raise unanswered() from None
    return agents.directive_for(caller.attempt, job)


def _key(directive: Directive, body: dict[str, Any]) -> str:
    """The key of a directive as this agent computes it, whatever its version."""
    return directive.key if body.get("knows_cancel") else directive.order_key


def _with_requests(caller: Caller, directive: Directive, body: dict[str, Any]) -> Directive:
    received = body.get("requests")
    if not isinstance(received, list):  # The agent takes none.
        return directive
    key = NodeKey(caller.job, caller.attempt, caller.node)
    due = caller.context.control.node_requests.due(key, cast("list[str]", received))
    return replace(directive, requests=due) if due else directive


async def _with_next(caller: Caller, directive: Directive, body: dict[str, Any]) -> Directive:
    """Adds the job that has taken over the node, for an agent that may go on with it."""
    proof = body.get("proof")
    if directive.order is not Order.LEAVE or not isinstance(proof, str):
        return directive
    node = (caller.job, caller.attempt, caller.node)
    heir = await away(lambda: caller.context.control.agents.next_job(*node, proof))
    return replace(directive, next=heir)


@router.post("/answers/{request_id}", openapi_extra=JSON_BODY)
async def answer(request_id: str, caller: Admitted, request: Request) -> dict[str, bool]:
    """The node's answer to a request."""
    key = NodeKey(caller.job, caller.attempt, caller.node)
    given = await read_json(await request.body(), lambda read: read)
    caller.context.control.node_requests.answer(key, request_id, given)
    return {"is_taken": True}


async def settle_logs(caller: Caller, status: AgentStatus) -> None:
    """Has the disk take a round's logs when its node first says that they are all here, and may be let go then."""
    control, node = caller.context.control, (caller.job, caller.attempt, caller.node)
    if not await _in_memory_or_away(caller, lambda: control.agents.has_news_of_logs(*node, caller.secret, status)):
        return
    try:
        # A slow disk must not hold up what other agents say.
        which = (caller.job, caller.attempt, status.round, caller.node)
        await away(lambda: control.artifacts.settle_logs(*which), caller.context.commits)
    except StorageError as error:
        notice(caller, f"its logs wait for the server's disk: {error}")
        raise
    notice(caller, "")


@dataclass
class DirectiveWait:
    """A long poll. end: by the event loop's clock. is_over: the agent hung up."""

    signal: TopicSignal
    end: float
    is_over: bool = False

    @property
    def left_s(self) -> float:
        """How long it may still last."""
        return 0.0 if self.is_over else max(0.0, self.end - asyncio.get_running_loop().time())

    async def end_with(self, request: Request) -> None:
        """Ends it once the agent has disconnected."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.is_over = True
        self.signal.notify()


async def another(
    caller: Caller, held: Directive, wait: DirectiveWait, request: Request, body: dict[str, Any]
) -> Directive:
    """The next directive; when the time is over the one that is held, with the servers that are known by then."""
    context = caller.context
    hanging_up = asyncio.create_task(wait.end_with(request))
    try:
        key = _key(held, body)
        while not context.fanout.is_closing and wait.left_s and _key(held, body) == key and not held.requests:
            await wait.signal.wait(wait.left_s)
            held = await _directive(caller)
            held = _with_requests(caller, held, body)
    finally:
        hanging_up.cancel()
    return held


async def _directive(caller: Caller) -> Directive:
    agents = caller.context.control.agents
    return await _in_memory_or_away(caller, lambda: agents.directive(caller.job, caller.attempt))


async def _in_memory_or_away(caller: Caller, call: Callable[[], T]) -> T:
    """Runs a call in a thread only where it may have to ask the store."""
    is_in_memory = caller.context.control.agents.is_in_memory(caller.job, caller.attempt)
    return call() if is_in_memory else await away(call)


@router.get("/rosters/{digest}", response_class=Response)
async def get_roster(digest: str, caller: Speaking) -> Response:
    """The whole roster of the present round, as JSON that is packed by zlib; all nodes are answered alike."""
    agents = caller.context.control.agents

    def read() -> bytes:
        return agents.roster(digest, agents.admit(caller.job, caller.attempt, caller.node, caller.secret))

    return Response(await away(read), media_type="application/zlib")


@router.get("/registries")
async def get_registries(caller: Admitted) -> dict[str, object]:
    """`{auths, insecure}`: with what the images are pulled that the job's plan names."""
    return await away(lambda: caller.context.control.agents.registry_access(caller.job))


@router.get("/snapshots/{digest}", response_class=StreamingResponse)
async def get_snapshot(digest: str, caller: Admitted) -> StreamingResponse:
    """A snapshot that the job's plan names."""
    file = await away(lambda: _open(caller, digest))
    return StreamingResponse(_pieces(file), media_type="application/x-tar")


def _open(caller: Caller, digest: str) -> BinaryIO:
    control = caller.context.control
    plan = control.store.load(caller.job).job.plan
    if digest not in _digests(plan):
        raise ForbiddenError("this snapshot isn't one of the job's", where=digest[:80])
    return control.artifacts.open_snapshot(digest)


def _digests(plan: Plan) -> set[str]:
    """Snapshots that the job's nodes unpack."""
    build = plan.container.build if plan.container else None
    inputs = {one.uri.removeprefix("snapshot:") for one in plan.inputs if one.uri.startswith("snapshot:")}
    return inputs | {one for one in (plan.code, build and build.context) if one}


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        yield from iter_pieces(file, 256 << 10)


@router.put("/logs/" + rest("path"), openapi_extra=BODY)
async def put_log(path: str, offset: Offset, caller: AdmittedLate, request: Request) -> dict[str, int]:
    """Adds to a rank's log, `{attempt}.{round}/{node}/{rank}.log`, or the node's, `…/node.log`; answers its size."""
    file, control = own_log(path, caller), caller.context.control
    data = await request.body()
    try:
        record = control.loop.jobs.get(caller.job)
        keep = record.job.plan.max_log_mib << 20 if record is not None else 0
        size = await away(lambda: control.artifacts.append_log(caller.job, file, offset, data, keep=keep))
    except StorageError as error:
        notice(caller, f"its logs wait on their nodes: {error}")
        raise
    if data:
        notice(caller, "")
        control.bus.publish(job_topic(caller.job))
    return {"size": size}


def notice(caller: Caller, sentence: str) -> None:
    """Shows what keeps the job's logs from being stored to all who look at it; "" = nothing any more."""
    if caller.context.notices.record(caller.job, sentence):
        caller.context.control.bus.publish(job_topic(caller.job))


def own_log(path: str, caller: Caller) -> str:
    """The log's place in the job's folder; an agent may only write its own node's, of its own attempt."""
    log = None
    with suppress(ValueError):
        log = LogName.from_path(f"logs/{path}")
    if log is None or (log.attempt, log.node) != (caller.attempt, caller.node):
        fix = f"Its logs are {caller.attempt}.<round>/{caller.node}/<rank>.log."
        raise ForbiddenError("an agent writes only the logs of its own node", where=path[:200], fix=fix)
    return log.path


@router.post("/outputs/commit", openapi_extra=JSON_BODY)
async def commit_outputs(caller: Admitted, request: Request) -> dict[str, list[str]]:
    """Shows the node's outputs, `{"files": {path: {size, sha256}}}`, at once; answers those that aren't whole yet.

    Much to check takes longer than an agent waits for an answer, and so it asks again meanwhile and afterwards.
    """
    context, node = caller.context, (caller.job, caller.attempt, caller.node)
    artifacts = context.control.artifacts
    body = await request.body()
    if node in context.committing:
        raise UnreachableError("the server is still checking them")
    context.committing.add(node)
    try:
        files = await read_json(body, _files)
        earlier = context.incomplete.get(node)
        if earlier and earlier.files == files:
            return {"missing": earlier.missing}
        context.incomplete.pop(node, None)
        missing = await away(lambda: artifacts.commit_outputs(*node, files), context.commits)
    finally:
        context.committing.discard(node)
    if missing:
        for older in [one for one in context.incomplete if one[0] == caller.job and one[1] != caller.attempt]:
            del context.incomplete[older]
        context.incomplete[node] = IncompleteOutputs(files, missing)
    return {"missing": missing}


@router.put("/outputs/" + rest("path"), openapi_extra=BODY)
async def put_output(path: str, offset: Offset, caller: Admitted, request: Request, hole: Hole = 0) -> dict[str, int]:
    """Adds to an output file that isn't shown before the commit, data or a hole; answers its size."""
    data, artifacts = await request.body(), caller.context.control.artifacts
    caller.context.incomplete.pop((caller.job, caller.attempt, caller.node), None)
    place = (caller.job, caller.attempt, caller.node, path)
    size = await away(lambda: artifacts.append_output(*place, offset, data, hole))
    return {"size": size}


def _status(body: dict[str, Any]) -> AgentStatus:
    try:
        return from_wire(AgentStatus, body.get("status"), "status")
    except (ValueError, TypeError, RecursionError) as error:
        raise RefusedError(f"the agent's status can't be read: {error}", where="status") from None


def _wait_s(body: dict[str, Any]) -> float:
    wanted = body.get("wait_s", 0)
    return min(max(float(wanted), 0.0), LONGEST_WAIT_S) if isinstance(wanted, int | float) else 0.0


def _files(body: dict[str, Any]) -> dict[str, tuple[int, str]]:
    try:
        return {str(path): (int(one["size"]), str(one["sha256"])) for path, one in body["files"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RefusedError('expected {"files": {path: {size, sha256}}}', where="files") from None
