"""What the servers of a simulation have in common: a store that outlives them, and what can be seen in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from drumbeat.core.life.events import StoryEntry
from drumbeat.core.quotas import Quota
from drumbeat.ports import JobFilter, Letter, PendingEffect, Record, Reservation, Store
from tests.support.memory_store import MemoryStore, Shelf

Monotonic = Callable[[], float]


@dataclass(frozen=True)
class Sight:
    """All that is stored at one instant. records: by name, oldest first. letters: that wait for any server."""

    records: dict[str, Record]
    stories: dict[str, list[StoryEntry]]
    effects: list[PendingEffect]
    held: list[Reservation]
    letters: list[Letter]
    quotas: list[Quota]


class Backing(Protocol):
    """The data of one simulation."""

    def open(self, monotonic: Monotonic) -> Store:
        """A store for a new server process."""
        ...

    def look(self) -> Sight:
        """What is there now."""
        ...

    def close(self) -> None:
        """The simulation is over."""
        ...


@dataclass
class InMemory:
    """A shelf. Quick: ten thousand schedules a minute."""

    shelf: Shelf = field(default_factory=Shelf)

    def open(self, monotonic: Monotonic) -> Store:
        """Another store over it."""
        return MemoryStore(self.shelf, monotonic=monotonic)

    def look(self) -> Sight:
        """The shelf's own things, not copies."""
        shelf = self.shelf
        effects, held = list(shelf.effects.values()), list(shelf.held.values())
        letters, quotas = list(shelf.letters.values()), list(shelf.people.quotas.values())
        return Sight(shelf.records, shelf.stories, effects, held, letters, quotas)

    def close(self) -> None:
        """Nothing to let go of."""


class InStore:
    """A real store, empty at first. make: opens it once more; each server has its own."""

    def __init__(self, make: Callable[[Monotonic], Store]) -> None:
        self._make = make
        self._eye = make(lambda: 0.0)
        self._opened = [self._eye]
        self._told: dict[str, tuple[int, list[StoryEntry]]] = {}

    def open(self, monotonic: Monotonic) -> Store:
        """Remembered, to be closed."""
        self._opened.append(self._make(monotonic))
        return self._opened[-1]

    def look(self) -> Sight:
        """Read again; stories only where the job has changed."""
        newest_first = self._eye.jobs(JobFilter(is_archived=None, limit=1000))
        records = {record.job.name: record for record in reversed(newest_first)}
        stories = {name: self._story(record) for name, record in records.items()}
        letters = [one for token in {record.lease for record in records.values()} for one in self._eye.inbox(token)]
        held = self._eye.reservations("local")
        return Sight(records, stories, self._eye.outbox(), held, letters, self._eye.quotas())

    def _story(self, record: Record) -> list[StoryEntry]:
        name = record.job.name
        version, story = self._told.get(name, (0, []))
        if version != record.version:
            story = self._eye.story(name)
            self._told[name] = (record.version, story)
        return story

    def close(self) -> None:
        """Closes every store that was opened."""
        for store in self._opened:
            store.close()
