"""The server itself and its refusals as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class ProblemView:
    """One problem at one place."""

    what: str
    where: str
    fix: str


@dataclass(frozen=True)
class ErrorView(ProblemView):
    """A refusal or failure. code: a word of `drumbeat.model.errors`, in the header `Drumbeat-Error` too."""

    code: str
    fields: tuple[ProblemView, ...]


@dataclass(frozen=True)
class VersionView:
    """The server's identity. protocol: client and server must have the same.

    stands_by: another server over the same database is the active one, and answers everything else.
    """

    version: str
    protocol: int
    boot_id: str
    host: str
    pid: int
    home: str
    stands_by: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class AgentListenerView:
    """An address at which agents on other hosts reach the server.

    ends: when the certificate that is shown there now expires; it is renewed before.
    """

    address: str
    port: int
    ends: datetime


@dataclass(frozen=True)
class WarmWorkersView:
    """Warm workers on the server's machine that wait for the next job of a command."""

    command: str
    interpreters: int
    bytes: int
    """The memory that they take."""
    since: datetime


@dataclass(frozen=True)
class StatusView:
    """The server's state.

    idle_stop_s: it stops after that long with nothing to do; 0 = never. others: servers over the same database,
    which take over when this one ends.
    """

    uptime_s: float
    unfinished: tuple[str, ...]
    idle_s: float
    idle_stop_s: float
    publishing: tuple[str, ...] = ()
    doors: tuple[AgentListenerView, ...] = ()
    others: tuple[str, ...] = ()
    retain_s: float = 0.0
    """Jobs that have ended are deleted after so many seconds; 0 = never."""
    spares: tuple[WarmWorkersView, ...] = ()
    """Warm workers on the server's machine that no job has."""
    mlflow: str = ""
    """The address, without credentials, of the MLflow server that runs are copied to; "" = none."""
    active_url: str = ""
    """The address of the active server, where this one stands by; "" = this is it, or it isn't known."""
    backup_at: datetime | None = None
    """When the home was last backed up by `drumbeat server backup`; null = never."""
    ca_fingerprint: str = ""
    """`sha256:…` of the authority that signs the certificate of the server's port; "" = it isn't the home's own."""
    scoring: str = ""
    """Where clients on other machines call online endpoints; "" = nowhere."""
    replicas: tuple[str, ...] = ()
    """Where replicas of online endpoints on other machines call the router."""
    unknown_jobs: tuple[str, ...] = ()
    """Jobs of which this home, restored from a backup, knows nothing: their nodes were met, and ended."""


@dataclass(frozen=True, kw_only=True)
class ServerView(StatusView, VersionView):
    """A server's identity and state together, as the client gives them. url: at which the client reaches it."""

    url: str
