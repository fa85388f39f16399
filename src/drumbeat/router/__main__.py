"""`python -m drumbeat.router FOLDER`: the router of the home whose folder this is.

SIGTERM ends it, once its requests are answered. SIGUSR2 replaces it without a failed request: a new process inherits
its listening sockets, the replicas dial again, and the old one leaves when the new one has as many permits.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from drumbeat.model import routing_table
from drumbeat.model.programs import ROUTER
from drumbeat.router.client_connection import ClientConnection
from drumbeat.router.listeners import Listeners
from drumbeat.router.numbers_socket import NumbersConnection
from drumbeat.router.replica_door import ReplicaDoor
from drumbeat.router.router import Router

log = logging.getLogger("drumbeat.router")
LOOK_TABLE_S, LOOK_TIMEOUTS_S, LOOK_CLIENTS_S, LOOK_LISTENERS_S = 0.2, 0.02, 1.0, 1.0
INHERITED = "DRUMBEAT_ROUTER_SOCKETS"
"""The variable by which a successor gets descriptors of listening sockets, the pipe to the router before it, and which
permits that one has."""
OVERLAP_S = 30.0
"""How long a router that is being replaced waits for its successor's permits."""
LEAVE_S = 300.0
"""How long its last requests may take."""
IDLE_CLIENTS_S = 5.0
"""After this time, clients that send nothing more are disconnected."""


class RouterProcess:
    """Runs a router in this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        loop = asyncio.get_running_loop()
        self._router = Router(loop)
        self._table_time = 0
        given = json.loads(os.environ.pop(INHERITED, "{}"))
        self._report: int | None = given.get("report")
        self._awaited: dict[str, int] = given.get("permits", {})
        self._listeners = Listeners(
            folder, lambda endpoint: ClientConnection(self._router, endpoint), given.get("sockets", {})
        )
        self._end = asyncio.Event()
        self._is_replaced = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Routes until SIGTERM or its successor has taken over."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._end.set)
        loop.add_signal_handler(signal.SIGINT, self._end.set)
        loop.add_signal_handler(signal.SIGUSR2, lambda: self._start(self._hand_over()))
        await self._listeners.open_local(self._door, lambda: NumbersConnection(self._summary))
        await self._read_table()
        for period_s, action in (
            (LOOK_TIMEOUTS_S, self._router.end_overdue),
            (LOOK_CLIENTS_S, self._router.end_silent_connections),
        ):
            self._start(_every(period_s, action))
        self._start(self._follow_table())
        if self._report is not None:
            self._start(self._report_permits())
        log.info("the router runs with its table in %s", self._folder)
        await self._end.wait()
        await self._leave()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _door(self) -> ReplicaDoor:
        return ReplicaDoor(self._router.pool)

    def _summary(self) -> dict[str, object]:
        return {**self._router.summary(), "listeners": self._listeners.bound, "pid": os.getpid()}

    # --- the table --------------------------------------------------------------------------------------------------
    async def _follow_table(self) -> None:
        due_s = 0.0
        while True:
            await asyncio.sleep(LOOK_TABLE_S)
            if self._is_replaced:
                continue
            await self._read_table()
            if (now := asyncio.get_running_loop().time()) >= due_s:
                due_s = now + LOOK_LISTENERS_S
                await self._listeners.look()

    async def _read_table(self) -> None:
        path = self._folder / routing_table.NAME
        try:
            changed = path.stat().st_mtime_ns
            if changed == self._table_time:
                return
            self._table_time = changed
            table = routing_table.table_of(path.read_text())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            log.warning("the table in %s can't be used, and the last one stays: %s", path, error)
            return
        self._router.use(table)
        await self._listeners.follow(table, self._door, with_clients=self._report is None)

    # --- the end ----------------------------------------------------------------------------------------------------
    async def _leave(self) -> None:
        """Answers what is under way, and ends."""
        self._listeners.close(for_replicas=True)
        self._listeners.close(for_replicas=False)
        router, loop = self._router, asyncio.get_running_loop()
        router.is_leaving = True
        begin = loop.time()
        while router.clients and (passed := loop.time() - begin) < LEAVE_S:
            await asyncio.sleep(0.05)
            # A client that keeps its connection is told with its next answer. One that sends none is disconnected.
            if not self._is_replaced or passed > IDLE_CLIENTS_S:
                for client in list(router.clients):
                    client.close_if_idle()
        log.info("the router leaves, with %d clients left", len(router.clients))

    # --- the hand-over ----------------------------------------------------------------------------------------------
    async def _hand_over(self) -> None:
        """Starts a successor and leaves once that one has the replicas."""
        if self._is_replaced:
            return
        self._is_replaced = True
        reading, writing = os.pipe()
        sockets = self._listeners.descriptors
        given = {"sockets": sockets, "report": writing, "permits": self._permits()}
        self._listeners.close(for_replicas=True)
        successor = subprocess.Popen(  # noqa: ASYNC220 - it takes a millisecond
            [sys.executable, "-m", ROUTER, str(self._folder)],
            pass_fds=(*sockets.values(), writing), env={**os.environ, INHERITED: json.dumps(given)},
        )  # fmt: skip
        os.close(writing)
        is_ready = asyncio.Event()
        asyncio.get_running_loop().add_reader(reading, is_ready.set)
        for pool in self._router.pools.values():
            pool.hand_over()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(is_ready.wait(), OVERLAP_S)
        asyncio.get_running_loop().remove_reader(reading)
        message = os.read(reading, 1) if is_ready.is_set() else b""
        os.close(reading)
        if not message and successor.poll() is not None:
            log.error("the router's successor ended with %s, so this one goes on", successor.returncode)
            self._is_replaced = False
            for pool in self._router.pools.values():
                pool.is_handed_over = False
            await self._listeners.open_local(self._door, lambda: NumbersConnection(self._summary))
            return
        self._end.set()

    def _permits(self) -> dict[str, int]:
        return {f"{endpoint}/{name}": len(pool.live) for (endpoint, name), pool in self._router.pools.items()}

    async def _report_permits(self) -> None:
        """Tells the router before when this one has as many permits, or three quarters of them after a second."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        while True:
            own = self._permits()
            share = 1.0 if loop.time() - begin < 1 else 0.75 if loop.time() - begin < OVERLAP_S / 2 else 0.0
            if all(own.get(name, 0) >= count * share for name, count in self._awaited.items() if name in own):
                break
            await asyncio.sleep(0.02)
        report, self._report = self._report, None
        await self._listeners.follow(self._router.table, self._door)
        if report is not None:
            os.write(report, b"1")
            os.close(report)


async def _every(period_s: float, action: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(period_s)
        action()


async def _main(folder: Path) -> None:
    await RouterProcess(folder).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until SIGTERM; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname).1s %(message)s", stream=sys.stderr)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) != 1:
        log.error("Usage: python -m drumbeat.router FOLDER")
        return 2
    run = asyncio.run
    with suppress(ImportError):
        import uvloop

        run = uvloop.run
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    run(_main(Path(given[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
