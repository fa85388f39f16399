"""The part of the API for the web page: links, sessions, and changes of all jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drumbeat.model.api.jobs import JobView
from drumbeat.model.plan import Plan
from drumbeat.model.principal import Role


@dataclass(frozen=True)
class PageLinkView:
    """A link that opens the web page once. path: below the server's address."""

    path: str
    lifetime_s: float
    """The link works for so many seconds."""


@dataclass(frozen=True)
class PageSessionView:
    """A session of the web page."""

    action_token: str
    """The value of the header `Drumbeat-Action`, without which a session may only read."""
    person: str = ""
    role: Role = Role.OWNER
    server: str = ""
    """The name of the server's machine."""
    version: str = ""
    idle_stop_s: float = 0.0
    """After so many idle seconds the server stops; 0 = never."""


@dataclass(frozen=True)
class JobChanges:
    """Jobs that have changed."""

    jobs: tuple[JobView, ...]
    removed: tuple[str, ...] = ()
    """The names of jobs that were deleted."""
    is_partial: bool = False
    """More have changed than are sent: the reader lists the jobs again."""


@dataclass(frozen=True)
class DefinitionView:
    """What a user submitted, and what runs."""

    document: dict[str, Any]
    """The job file as a mapping."""
    text: str
    """The same as YAML."""
    plan: Plan
