"""Used disk space, and the result of freeing it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

SpaceKind = Literal["job", "snapshot", "data cache", "environment", "wheel", "image", "datastore", "database"]


@dataclass(frozen=True)
class SpaceItem:
    """One thing that takes space."""

    kind: str
    """One of `SpaceKind`."""
    name: str
    size: int
    """Bytes of disk."""
    used_at: datetime | None = None
    """When a job ended, or when a snapshot, a cached file or an environment was used last; None = unknown, or now."""
    note: str = ""
    """For users: a job's state, an environment's name, what needs a snapshot."""
    parts: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes of a job's outputs, logs, checkpoints and other files."""


@dataclass(frozen=True)
class Usage:
    """What jobs, snapshots, caches of this machine and the server's own datastores take."""

    items: tuple[SpaceItem, ...]
    """The biggest first."""
    totals: dict[str, int]
    """Bytes by kind."""
    total: int
    """Bytes of all of them."""
    free: int = 0
    """Bytes that the disk of the server's files has left."""
    retain_s: float = 0.0
    """After so many seconds jobs that have ended are deleted by the server itself; 0 = never."""


@dataclass(frozen=True)
class KeptItem:
    """Something that is kept although its deletion was requested, or although it is old enough."""

    what: str
    """`job cifar-7f3a`, `snapshot 5d41…`."""
    why: str
    fix: str = ""
    """How to make it deletable; "" = there is no way."""
    asset: str = ""
    """The registered version without which it could be deleted, such as `data cifar:1`; "" = there is none."""


@dataclass(frozen=True)
class Freed:
    """What was deleted, or would be: of one job, or of a whole `prune`."""

    items: tuple[SpaceItem, ...] = ()
    """What is gone, the biggest first. Of a job whose outputs are kept: its logs and checkpoints."""
    kept: tuple[KeptItem, ...] = ()
    total: int = 0
    """Bytes."""
    is_dry: bool = False
    """Nothing was deleted: this is what would be."""


@dataclass(frozen=True)
class Retention:
    """After how many seconds the server deletes jobs that have ended; 0 = never."""

    retain_s: float = 0.0
