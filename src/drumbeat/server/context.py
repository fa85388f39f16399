"""The context of every request: the control room, the fan-out, the server's identity."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from drumbeat._version import __version__
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.principal import Principal
from drumbeat.server.access.agent_listeners import TlsDoors
from drumbeat.server.access.callers import Callers
from drumbeat.server.access.page_sessions import PageSessions
from drumbeat.server.access.request_guard import bearer, valid_session
from drumbeat.server.access.request_sizes import Traffic
from drumbeat.server.control import Control
from drumbeat.server.database.records import Record
from drumbeat.server.fanout import Fanout
from drumbeat.server.log_storage_errors import LogStorageErrors
from drumbeat.server.nodes.tunnels import Tunnels
from drumbeat.server.operations.process_metrics import Operations
from drumbeat.server.services.ports import ServicePorts

PROTOCOL = 1
"""Grows when a client of before can't talk to this server any more."""

MAX_AT_STORES = 16
MAX_COMMITS = 8

T = TypeVar("T")


@dataclass(frozen=True)
class Identity:
    """Who answers: the process, the machine, the boot."""

    host: str = ""
    boot_id: str = ""
    pid: int = 0
    home: str = ""
    version: str = __version__
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class Lacking:
    """Outputs as their node described them, and the paths of those that weren't whole."""

    files: dict[str, tuple[int, str]]
    missing: list[str]


@dataclass
class ServerContext:
    """Everything that a running server shares between its requests. stop: makes the server end itself."""

    control: Control
    identity: Identity = field(default_factory=Identity)
    fanout: Fanout = field(default_factory=Fanout)
    traffic: Traffic = field(default_factory=Traffic)
    idle_stop_s: float = 0.0
    started: float = field(default_factory=time.monotonic)
    notices: LogStorageErrors = field(default_factory=LogStorageErrors)
    tunnels: Tunnels = field(default_factory=Tunnels)
    services: ServicePorts | None = None
    """Where services of jobs are opened; set by the app."""
    service_host: str = "127.0.0.1"
    """The address at which their ports listen."""
    stop: Callable[[], None] = lambda: None
    doors: TlsDoors | None = None
    """For agents on other machines."""
    stores: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MAX_AT_STORES))
    """Calls that wait for a store: a slow one must not take the threads of everything else."""
    commits: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MAX_COMMITS))
    """Outputs that are checked and shown: of many gigabytes that takes minutes, in which agents must be heard."""
    committing: set[tuple[str, int, int]] = field(default_factory=set[tuple[str, int, int]])
    """The nodes whose outputs they are, by job and attempt: one that asks again meanwhile needn't be checked twice."""
    lacking: dict[tuple[str, int, int], Lacking] = field(default_factory=dict[tuple[str, int, int], "Lacking"])
    """What was found missing of a node's outputs: true until it sends more, and told to whoever asks again."""
    silent_s: float = 20.0
    """How long a store may send nothing while a node waits, which gives the server 30 s."""
    folder: str = ""
    """The folder that the server writes to."""
    operations: Operations | None = None
    """What is measured of this server; set by the app."""
    sessions: PageSessions | None = None
    """Of the web page; set by the app, which knows the token."""
    callers: Callers | None = None
    """Set by the app, too."""

    def is_active(self) -> bool:
        """Whether this server is the active one."""
        return self.control.is_active

    def active_url(self) -> str:
        """Where clients call the active server, while this one stands by; "" = it isn't known."""
        return self.control.addresses.active_url

    def notice_of(self, job: Job) -> str:
        """What keeps a job's state or its logs from being stored; "" = nothing. Its job runs on meanwhile."""
        problem = "" if job.state.is_terminal else self.control.loop.refused_writes.problem
        return "; ".join(filter(None, (problem and f"its state can't be stored: {problem}", self.notices.for_job(job))))


def current(control: Control, name: str) -> Record:
    """A job as it is now. Raises NotFoundError."""
    return control.loop.record(name)


async def away(call: Callable[[], T], limiter: CapacityLimiter | None = None) -> T:
    """Runs what may block where it blocks nobody. limiter: of its kind; None = there is but one for most."""
    return await to_thread.run_sync(call, limiter=limiter)


async def while_connected(request: Request, call: Callable[[Callable[[], None]], T]) -> T:
    """Runs a long call in a thread. Once its client is gone, what the call is given raises ClientDisconnect."""
    is_gone = threading.Event()

    def go_on() -> None:
        if is_gone.is_set():
            raise ClientDisconnect

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        is_gone.set()

    watching = asyncio.create_task(watch())
    try:
        return await away(lambda: call(go_on))
    finally:
        watching.cancel()


def digest_of_caller(context: ServerContext, request: Request) -> str:
    """The digest of the token that a request, or its session of the page, belongs to; "" = the home's."""
    given = bearer(request.scope["headers"])
    if given and context.callers:
        return context.callers.digest_of(given)
    session = valid_session(request.scope["headers"], context.sessions) if context.sessions else ""
    return context.sessions.digest_of(session) if context.sessions else ""


def _context(request: Request) -> ServerContext:
    return request.app.state.context


def _control(request: Request) -> Control:
    return request.app.state.context.control


def _principal(request: Request) -> Principal:
    return request.state.principal


ContextOf = Annotated[ServerContext, Depends(_context)]
ControlOf = Annotated[Control, Depends(_control)]
PrincipalOf = Annotated[Principal, Depends(_principal)]
"""Who asks; of every request with a token or a session."""
