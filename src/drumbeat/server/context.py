"""The context of every request: `Control`, the fan-out, the server's identity."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from drumbeat._version import __version__
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.principal import Principal
from drumbeat.server.access.agent_listeners import TlsAgentListeners
from drumbeat.server.access.callers import Callers
from drumbeat.server.access.era_guard import ServerEra
from drumbeat.server.access.https_listener import HttpsListener
from drumbeat.server.access.page_sessions import PageSessions
from drumbeat.server.access.request_guard import bearer, valid_session
from drumbeat.server.access.request_sizes import Traffic
from drumbeat.server.access.signed_tokens import SignedTokens
from drumbeat.server.control import Control
from drumbeat.server.database.records import Record
from drumbeat.server.fanout import Fanout
from drumbeat.server.log_storage_errors import LogStorageErrors
from drumbeat.server.nodes.tunnels import Tunnels
from drumbeat.server.operations.process_metrics import Operations
from drumbeat.server.services.ports import ServicePorts

if TYPE_CHECKING:
    from drumbeat.server.access.user_tls import UserTls
    from drumbeat.server.sign_in.sign_in import SignIn

PROTOCOL = 1
"""The protocol version, which increases when older clients can't talk to this server any more."""

MAX_AT_STORES = 16
MAX_COMMITS = 8

T = TypeVar("T")


@dataclass(frozen=True)
class Identity:
    """The server's identity: process, machine, boot."""

    host: str = ""
    boot_id: str = ""
    pid: int = 0
    home: str = ""
    version: str = __version__
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class IncompleteOutputs:
    """Outputs as their node described them, and the paths that were incomplete."""

    files: dict[str, tuple[int, str]]
    missing: list[str]


@dataclass
class ServerContext:
    """The state that a running server shares between its requests. stop: stops the server."""

    control: Control
    identity: Identity = field(default_factory=Identity)
    fanout: Fanout = field(default_factory=Fanout)
    traffic: Traffic = field(default_factory=Traffic)
    idle_stop_s: float = 0.0
    started: float = field(default_factory=time.monotonic)
    notices: LogStorageErrors = field(default_factory=LogStorageErrors)
    tunnels: Tunnels = field(default_factory=Tunnels)
    services: ServicePorts | None = None
    """The ports of services of jobs; set by the app."""
    service_host: str = "127.0.0.1"
    """The address on which these ports listen."""
    stop: Callable[[], None] = lambda: None
    agent_listeners: TlsAgentListeners | None = None
    """Listeners for agents on other machines."""
    stores: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MAX_AT_STORES))
    """Limits calls that wait for a store, so that a slow one doesn't occupy all threads."""
    commits: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MAX_COMMITS))
    """Limits checks of outputs, which take minutes for many gigabytes, so that agents are still served."""
    committing: set[tuple[str, int, int]] = field(default_factory=set[tuple[str, int, int]])
    """Nodes whose outputs are being checked, by job and attempt, so that repeated requests don't repeat the check."""
    incomplete: dict[tuple[str, int, int], IncompleteOutputs] = field(
        default_factory=dict[tuple[str, int, int], "IncompleteOutputs"]
    )
    """The missing outputs of nodes, for repeated requests; valid until the node sends more."""
    silent_s: float = 20.0
    """How long a store may be silent while a node waits, whose own timeout is 30 s."""
    folder: str = ""
    """The folder that the server writes to."""
    operations: Operations | None = None
    """The measurements of this server; set by the app."""
    sessions: PageSessions | None = None
    """Sessions of the web page; set by the app, which knows the token."""
    callers: Callers | None = None
    """The known callers; set by the app."""
    tls: UserTls | None = None
    """TLS of the server's own port; None = it is plain HTTP."""
    era: ServerEra | None = None
    """When the home was restored from a backup; None = agents aren't told."""
    sign_in: SignIn | None = None
    """Sign-in by an identity provider; None = there is none."""
    azure: HttpsListener | None = None
    """The listener for Azure's clients."""
    azure_tokens: SignedTokens | None = None
    """The tokens of Azure's clients; set by the app, which knows the token of the home."""

    def is_home_user(self, principal: Principal) -> bool:
        """Whether a principal may be the one of the home's token, which no user's token stands for."""
        return not principal.user or (self.callers is not None and principal == self.callers.owner)

    def is_active(self) -> bool:
        """Whether this server is the active one."""
        return self.control.is_active

    def active_url(self) -> str:
        """The URL of the active server while this one stands by; "" = unknown."""
        return self.control.addresses.active_url

    def storage_notice(self, job: Job) -> str:
        """Returns why a job's state or logs can't be stored; "" = they can. The job continues meanwhile."""
        problem = "" if job.state.is_terminal else self.control.loop.refused_writes.problem
        return "; ".join(filter(None, (problem and f"its state can't be stored: {problem}", self.notices.for_job(job))))


def current(control: Control, name: str) -> Record:
    """Returns the current state of a job. Raises NotFoundError."""
    return control.loop.record(name)


async def away(call: Callable[[], T], limiter: CapacityLimiter | None = None) -> T:
    """Runs a blocking call in a thread. limiter: None = the default one."""
    return await to_thread.run_sync(call, limiter=limiter)


async def while_connected(request: Request, call: Callable[[Callable[[], None]], T]) -> T:
    """Runs a long call in a thread. When its client disconnects, the call's argument raises ClientDisconnect."""
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
    """Returns the digest of the token of a request or of its session of the page; "" = the home's."""
    given = bearer(request.scope["headers"])
    if given and context.callers:
        return context.callers.token_digest(given)
    session = valid_session(request.scope["headers"], context.sessions) if context.sessions else ""
    return context.sessions.token_digest(session) if context.sessions else ""


# They are coroutines, although they wait for nothing: FastAPI runs plain functions in threads, which takes longer than
# all the rest of a request.
async def _context(request: Request) -> ServerContext:
    return request.app.state.context


async def _control(request: Request) -> Control:
    return request.app.state.context.control


async def _principal(request: Request) -> Principal:
    return request.state.principal


ContextOf = Annotated[ServerContext, Depends(_context)]
ControlOf = Annotated[Control, Depends(_control)]
PrincipalOf = Annotated[Principal, Depends(_principal)]
"""The principal of a request with a token or a session."""
