"""Tunnels: byte streams between a user and a service or a session on a node, in this server's memory.

The node's agent dials: it sends its bytes as the body of one request, and receives the user's as the answer to
another. Either direction holds few bytes, and who sends waits for who receives.
"""

from __future__ import annotations

import asyncio
import resource
import secrets
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.server.nodes.node_requests import NodeKey

MAX_HELD = 256 << 10
"""Bytes of one direction that wait for their receiver."""
MAX_TUNNELS = max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 8, 16)
"""Each takes two descriptors, and a browser's connection one more; agents and files need theirs."""
UNUSED_TIMEOUT_S = 60.0
"""How long a tunnel waits for its user."""


class ByteStream:
    """One direction of a tunnel. For one event loop."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._is_over = self._is_cut = False
        self._changed = asyncio.Condition()

    @property
    def is_over(self) -> bool:
        """Whether nothing is added any more."""
        return self._is_over

    async def put(self, piece: bytes) -> None:
        """Adds bytes, once there is room. Raises BrokenPipeError when their receiver is gone."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._held < MAX_HELD or self._is_over)
            if self._is_over:
                raise BrokenPipeError
            if piece:
                self._pieces.append(piece)
                self._held += len(piece)
                self._changed.notify_all()

    async def get(self) -> bytes:
        """The next bytes; b"" = the stream has ended."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._pieces or self._is_over)
            if self._is_cut or not self._pieces:
                return b""
            piece = b"".join(self._pieces)
            self._pieces.clear()
            self._held = 0
            self._changed.notify_all()
            return piece

    async def end(self) -> None:
        """Ends it after the bytes that it holds."""
        async with self._changed:
            self._is_over = True
            self._changed.notify_all()

    async def cut(self) -> None:
        """Ends it at once."""
        self._is_cut = True
        await self.end()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Everything to its end."""
        while piece := await self.get():
            yield piece


@dataclass
class Tunnel:
    """A tunnel to one node."""

    key: NodeKey
    user: str
    """Who opened it, and alone may use it."""
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    to_node: ByteStream = field(default_factory=ByteStream)
    from_node: ByteStream = field(default_factory=ByteStream)
    digest: str = ""
    """Of the token of that user, "" = the home's: one that is removed ends the tunnel."""
    is_used: bool = False
    """Whether its user receives what comes."""

    async def close(self) -> None:
        """Ends both directions at once."""
        await self.to_node.cut()
        await self.from_node.cut()


class Tunnels:
    """The tunnels of this server. For one event loop."""

    def __init__(self) -> None:
        self._tunnels: dict[str, Tunnel] = {}
        self._expiring: set[asyncio.Task[None]] = set()
        self.watches: dict[str, asyncio.Task[None]] = {}
        """What ends the tunnels of a job with it, by job."""

    def __len__(self) -> int:
        return len(self._tunnels)

    def add(self, key: NodeKey, user: str) -> Tunnel:
        """Makes a tunnel; `remove` ends it. Raises ConflictError when the server has as many as it can."""
        if len(self._tunnels) >= MAX_TUNNELS:
            raise ConflictError(f"{MAX_TUNNELS} connections to nodes are open on this server already")
        tunnel = Tunnel(key, user)
        self._tunnels[tunnel.id] = tunnel
        asyncio.get_running_loop().call_later(UNUSED_TIMEOUT_S, self._expire, tunnel)
        return tunnel

    def _expire(self, tunnel: Tunnel) -> None:
        if not tunnel.is_used and tunnel.id in self._tunnels:
            self._expiring.add(task := asyncio.create_task(self.remove(tunnel)))
            task.add_done_callback(self._expiring.discard)

    async def remove(self, tunnel: Tunnel) -> None:
        """Ends a tunnel."""
        self._tunnels.pop(tunnel.id, None)
        await tunnel.close()

    def of_node(self, tunnel_id: str, key: NodeKey) -> Tunnel:
        """The tunnel that this node is to dial. Raises NotFoundError."""
        tunnel = self._tunnels.get(tunnel_id)
        if tunnel is None or tunnel.key != key:
            raise NotFoundError("no user waits for this connection any more")
        return tunnel

    def of_user(self, tunnel_id: str, job: str, person: str) -> Tunnel:
        """The tunnel that this user has opened. Raises NotFoundError."""
        tunnel = self._tunnels.get(tunnel_id)
        if tunnel is None or (tunnel.key.job, tunnel.user) != (job, person):
            raise NotFoundError("this session has ended", where=f"job {job}")
        return tunnel

    async def keep(self, job: str, attempt: int) -> None:
        """Ends the tunnels of a job to other attempts than this one; -1 = all of them: it has ended."""
        for tunnel in [one for one in self._tunnels.values() if one.key.job == job and one.key.attempt != attempt]:
            await self.remove(tunnel)

    def of_job(self, job: str) -> list[Tunnel]:
        """The tunnels of a job."""
        return [one for one in self._tunnels.values() if one.key.job == job]

    @property
    def jobs(self) -> set[str]:
        """The jobs with tunnels."""
        return {one.key.job for one in self._tunnels.values()}

    async def close(self) -> None:
        """Ends all of them."""
        for tunnel in list(self._tunnels.values()):
            await self.remove(tunnel)
