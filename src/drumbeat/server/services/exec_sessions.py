"""Routes of sessions: a user's command beside a rank, which one call starts, and two streams for its frames."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from drumbeat.model.api.sessions import SessionStartRequest, SessionView
from drumbeat.model.errors import SpecError
from drumbeat.server.context import ContextOf, PrincipalOf, digest_of_caller
from drumbeat.server.nodes.tunnel_opening import SessionRequest, open_session
from drumbeat.server.routing import new_router

router = new_router("/api/v1/jobs", tags=["jobs"])

STREAM = "application/octet-stream"
MAX_SIDE = 0xFFFF
"""Maximum rows or columns of a terminal."""


@router.post("/{job}/sessions", status_code=201)
async def create_session(
    job: str, body: SessionStartRequest, context: ContextOf, principal: PrincipalOf, request: Request
) -> SessionView:
    """Runs a command beside a rank of a running job, with its variables, in its folder and container.

    It ends with the round at the latest. Frames (`drumbeat.model.session_frames`) are sent to `input` and read from
    `output`; the command gets SIGHUP when `output` is closed.
    """
    if not body.argv or not body.argv[0] or any("\0" in word for word in body.argv):
        raise SpecError("a session needs a command, without null characters", where="argv")
    size = (_side(body.rows), _side(body.columns)) if body.is_tty else None
    asked = SessionRequest(tuple(body.argv), body.rank, body.node, size)
    tunnel, answer = await open_session(context, job, asked, principal.user)
    tunnel.digest = digest_of_caller(context, request)
    return SessionView(tunnel.id, int(answer.get("rank", -1)), tunnel.key.node)


def _side(length: int) -> int:
    return min(max(length, 1), MAX_SIDE)


@router.get("/{job}/sessions/{session}/output", response_class=StreamingResponse)
async def session_output(job: str, session: str, context: ContextOf, principal: PrincipalOf) -> StreamingResponse:
    """Streams the session's frames to its end, for the user who started it."""
    tunnel = context.tunnels.of_user(session, job, principal.user)

    tunnel.is_used = True

    async def pieces() -> AsyncIterator[bytes]:
        try:
            async for piece in tunnel.from_node.pieces():
                yield piece
        finally:
            await context.tunnels.remove(tunnel)

    return StreamingResponse(pieces(), media_type=STREAM)


@router.post("/{job}/sessions/{session}/input", openapi_extra={"requestBody": {"content": {STREAM: {}}}})
async def session_input(
    job: str, session: str, context: ContextOf, principal: PrincipalOf, request: Request
) -> dict[str, int]:
    """Sends frames to the session. The end of the body doesn't end the command's input; an empty frame `i` does."""
    tunnel, size = context.tunnels.of_user(session, job, principal.user), 0
    try:
        async for piece in request.stream():
            await tunnel.to_node.put(piece)
            size += len(piece)
    except ClientDisconnect:
        await context.tunnels.remove(tunnel)
    except BrokenPipeError:  # The session has ended.
        pass
    return {"size": size}
