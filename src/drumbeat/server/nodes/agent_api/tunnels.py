"""The agents' side of tunnels: one request carries a node's bytes, the answer to another the user's."""

from __future__ import annotations

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from drumbeat.server.nodes.agent_api.sync import PREFIX, Admitted, Caller
from drumbeat.server.nodes.node_requests import NodeKey
from drumbeat.server.nodes.tunnels import Tunnel
from drumbeat.server.routing import new_router

router = new_router(PREFIX, tags=["agents"])

STREAM = "application/octet-stream"


def _tunnel(caller: Caller, tunnel_id: str) -> Tunnel:
    return caller.context.tunnels.of_node(tunnel_id, NodeKey(caller.job, caller.attempt, caller.node))


@router.get("/tunnels/{tunnel_id}/down", response_class=StreamingResponse)
async def tunnel_down(tunnel_id: str, caller: Admitted) -> StreamingResponse:
    """What the user sends, to the tunnel's end."""
    tunnel = _tunnel(caller, tunnel_id)
    return StreamingResponse(tunnel.to_node.pieces(), media_type=STREAM)


@router.post("/tunnels/{tunnel_id}/up")
async def tunnel_up(tunnel_id: str, caller: Admitted, request: Request) -> dict[str, int]:
    """What the node sends; the end of the body is its end."""
    tunnel, size = _tunnel(caller, tunnel_id), 0
    try:
        async for piece in request.stream():
            await tunnel.from_node.put(piece)
            size += len(piece)
    except (ClientDisconnect, BrokenPipeError):
        await tunnel.close()
    finally:
        await tunnel.from_node.end()
    return {"size": size}
