"""The agents of one gang in one process, over the real protocol: no ranks, no files, each node with a connection.

Every node enrols, is READY until RUN, RUNNING in long polls; then rank 0 of node 0 fails, all end and leave.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drumbeat.model.agent import AgentStatus, Phase, RankExit
from drumbeat.model.roster import Member
from drumbeat.model.wire import to_wire
from drumbeat.node.agent.status_reporter import poll_s

RANKS = 8
FAILED, STOPPED = (1, None), (None, 15)


@dataclass
class Times:
    """When nodes came where, by `time.monotonic`."""

    ready: list[float] = field(default_factory=list[float])
    """Asked to be told to run."""
    run: list[float] = field(default_factory=list[float])
    failed: float = 0.0
    stop: list[float] = field(default_factory=list[float])
    ended: list[float] = field(default_factory=list[float])
    left: list[float] = field(default_factory=list[float])
    received: int = 0
    """Bytes of all answers."""
    received_by_run: int = 0
    """Of these, until the last node was told to run."""


@dataclass
class Player:
    """One gang. probe: called when all were told to run, before the run is measured and at its end, with what it is.

    settle: returns when the server has taken in that all run.
    """

    socket: Path
    job: str
    attempt: int
    secrets: list[str]
    probe: Callable[[str], None]
    settle: Callable[[], Awaitable[None]]
    times: Times = field(default_factory=Times)
    _all_run: asyncio.Event = field(default_factory=asyncio.Event)
    _fails: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def wait_s(self) -> float:
        """How long a long poll lasts, as that of a real agent of such a gang."""
        return poll_s(600.0, len(self.secrets))

    async def play(self) -> Times:
        """To the last node's leaving."""
        nodes = [asyncio.create_task(self._node(number)) for number in range(len(self.secrets))]
        try:
            await asyncio.wait([asyncio.create_task(self._watch()), *nodes], return_when=asyncio.FIRST_EXCEPTION)
            for node in nodes:
                await node
        finally:
            for node in nodes:
                node.cancel()
        return self.times

    async def _watch(self) -> None:
        await self._all_run.wait()
        self.times.received_by_run = self.times.received
        self.probe("run")
        await self.settle()
        self.probe("settled")
        await asyncio.sleep(self.wait_s)  # Each node polls once meanwhile.
        self.probe("fail")
        self._fails.set()

    async def _node(self, number: int) -> None:
        node = Node(self, number)
        await node.open()
        order = await node.say(Phase.ENROLLED, until="prepare")
        self.times.ready.append(time.monotonic())
        await node.say(Phase.READY, round=order["round"], port=20000, until="run")
        self.times.run.append(time.monotonic())
        if len(self.times.run) == len(self.secrets):
            self._all_run.set()
        if number == 0:
            await node.say(Phase.RUNNING, round=1, until="run", wait_s=0)
            await self._fails.wait()
            self.times.failed = time.monotonic()
        else:
            await node.say(Phase.RUNNING, round=1, until="stop")
            self.times.stop.append(time.monotonic())
        exits = [_exit(number * RANKS + rank, rank, *(STOPPED if number or rank else FAILED)) for rank in range(RANKS)]
        self.times.ended.append(time.monotonic())
        await node.say(Phase.ENDED, round=1, exits=tuple(exits), until="upload")
        await node.say(Phase.UPLOADED, round=1, exits=tuple(exits), until="leave")
        self.times.left.append(time.monotonic())
        node.close()


def _exit(rank: int, order: int, code: int | None, signal: int | None) -> RankExit:
    return RankExit(rank, code, signal, time.time(), order, is_stopped=code is None)


class Node:
    """One agent's connection."""

    def __init__(self, player: Player, number: int) -> None:
        self._player, self._number = player, number
        self._member = Member(number, f"m{number}", f"10.0.{number >> 8}.{number & 255}", "/x", "/y", cpus=96)
        self._serial, self._holds = 0, ""

    async def open(self) -> None:
        """Connects; a listener's queue is short, so it may take some tries."""
        while True:
            try:
                self._reader, self._writer = await asyncio.open_unix_connection(str(self._player.socket))
            except (BlockingIOError, ConnectionRefusedError):
                await asyncio.sleep(0.05)
            else:
                return

    def close(self) -> None:
        """Hangs up."""
        self._writer.close()

    async def say(self, phase: Phase, *, until: str, wait_s: float | None = None, **fields: Any) -> dict[str, Any]:
        """Repeats a status until the directive has that order, and returns it."""
        wait_s = self._player.wait_s if wait_s is None else wait_s
        while True:
            self._serial += 1
            status = AgentStatus(phase, fields.pop("round", 0), self._member, serial=self._serial, **fields)
            fields = {"round": status.round, **fields}
            body = {
                "status": to_wire(status),
                "holds": self._holds,
                "wait_s": wait_s,
                "knows_cancel": True,
                "takes_brief_roster": True,
            }
            directive = (await self._posted(body))["directive"]
            self._holds = f"{directive['order']}:{directive['attempt']}:{directive['round']}"
            if directive["order"] == until:
                return directive

    async def _posted(self, body: dict[str, Any]) -> dict[str, Any]:
        data = json.dumps(body).encode()
        path = f"/agent/v1/{self._player.job}/{self._player.attempt}/{self._number}/sync"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {self._player.secrets[self._number]}\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self._writer.write(head.encode() + data)
        answered = await self._reader.readuntil(b"\r\n\r\n")
        lines = answered.decode().lower().split("\r\n")
        length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
        content = await self._reader.readexactly(length)
        self._player.times.received += len(answered) + length
        if " 200 " not in lines[0]:
            raise RuntimeError(f"node {self._number}: {lines[0]} {content[:300]!r}")
        return json.loads(content)
