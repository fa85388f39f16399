"""What several stores in memory see as one database."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from threading import RLock

from drumbeat.core.life.events import StoryEntry
from drumbeat.ports import (
    Letter,
    LiveServer,
    PendingEffect,
    Record,
    Reservation,
)  # fmt: skip
from drumbeat.protocol.api.requests import JobRequest
from tests.support.memory_catalog import CatalogShelf
from tests.support.memory_people import PeopleShelf

LEFT = -1
"""The beats of a server that has left."""

Held = tuple[str, str, int, int]
"""Compute, job, attempt, node: what a reservation is kept under."""


@dataclass
class Shelf:
    """What several stores see as one database. records: by name, oldest first. servers: token to beats, or LEFT.

    deleted: the last version and the note of each deleted job. facts: agreed on. places: of each
    token. bookings: compute to how often its slots changed hands. last: see `next`.
    """

    records: dict[str, Record] = field(default_factory=dict[str, Record])
    keys: dict[str, str] = field(default_factory=dict[str, str])
    requests: dict[str, JobRequest] = field(default_factory=dict[str, JobRequest])
    """Of parent jobs."""
    stories: dict[str, list[StoryEntry]] = field(default_factory=dict[str, list[StoryEntry]])
    effects: dict[int, PendingEffect] = field(default_factory=dict[int, PendingEffect])
    held: dict[Held, Reservation] = field(default_factory=dict[Held, Reservation])
    since: dict[Held, datetime] = field(default_factory=dict[Held, datetime])
    """When reservations were made."""
    facts: dict[str, str] = field(default_factory=dict[str, str])
    servers: dict[int, int] = field(default_factory=dict[int, int])
    places: dict[int, LiveServer] = field(default_factory=dict[int, LiveServer])
    bookings: Counter[str] = field(default_factory=Counter[str])
    letters: dict[int, Letter] = field(default_factory=dict[int, Letter])
    deleted: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    removals: dict[str, str] = field(default_factory=dict[str, str])
    settings: dict[str, str] = field(default_factory=dict[str, str])
    catalog: CatalogShelf = field(default_factory=CatalogShelf)
    people: PeopleShelf = field(default_factory=PeopleShelf)
    last: Counter[str] = field(default_factory=Counter[str])
    lock: RLock = field(default_factory=RLock)

    def next(self, what: str) -> int:
        """A number that was never given before."""
        self.last[what] += 1
        return self.last[what]
