"""What the servers of a simulation have in common: a store that outlives them, and what can be seen in it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.scheduling.quotas import Quota
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.model.errors import RefusedError
from drumbeat.model.states import Reason, State
from drumbeat.server.computes.usage_tables import QUOTA
from drumbeat.server.database import LeaseRules, SqlStore, make_store
from drumbeat.server.database.database import Database, parse_url
from drumbeat.server.database.records import PendingEffect, Record, Reservation
from drumbeat.server.database.schema import metadata
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.loop.outbox_tables import read_effect
from tests.support.memory_store import JobsDatabase, MemoryStore


@dataclass(frozen=True)
class Sight:
    """All that is stored at one instant. records: by name, oldest first."""

    records: dict[str, Record]
    events: dict[str, list[JobEvent]]
    effects: list[PendingEffect]
    held: list[Reservation]
    quotas: list[Quota]


class Backing:
    """The data of one simulation. open: a store for a new server process.

    changes: grows when anything is written; what was seen is seen again without reading until then. None = unknown.
    """

    def __init__(self, make: Callable[[LeaseRules], SqlStore], changes: Callable[[], int] | None = None) -> None:
        self._make, self._changes = make, changes or itertools.count().__next__
        self._eye = make(LeaseRules())
        self._opened = [self._eye]
        self._known_events: dict[str, tuple[int, list[JobEvent]]] = {}
        self._seen: tuple[int, Sight] | None = None

    def open(self, rules: LeaseRules) -> SqlStore:
        """A store for a new server process; it is closed with the others."""
        self._opened.append(self._make(rules))
        return self._opened[-1]

    def look(self) -> Sight:
        """What is there now."""
        changes = self._changes()
        if self._seen is None or self._seen[0] != changes:
            self._seen = changes, self._read()
        return self._seen[1]

    def _read(self) -> Sight:
        newest_first = self._eye.jobs(JobFilter(is_archived=None, limit=1000))
        records = {record.job.name: record for record in reversed(newest_first)}
        stories = {name: self._events(record) for name, record in records.items()}
        held = self._eye.reservations("local")
        return Sight(records, stories, self._eye.outbox(), held, self._eye.quotas())

    def _events(self, record: Record) -> list[JobEvent]:
        """A job's story, read only where the job has changed."""
        name = record.job.name
        version, story = self._known_events.get(name, (0, []))
        if version != record.version:
            story = self._eye.events(name)
            self._known_events[name] = (record.version, story)
        return story

    def close(self) -> None:
        """Closes every store that was opened."""
        for store in self._opened:
            store.close()


class MemoryBacking(Backing):
    """An empty database in memory, which is looked at after each action: with the least that shows what is new."""

    def __init__(self) -> None:
        self._database = JobsDatabase()
        super().__init__(lambda rules: MemoryStore(self._database, rules), lambda: self._database.changes)
        self._lines: dict[str, list[JobEvent]] = {}
        self._last_line = 0
        self._quotas_seen: tuple[list[tuple[Any, ...]], list[Quota]] | None = None

    def _read(self) -> Sight:
        rows = self._database.rows
        found = rows("SELECT name, version, archived FROM jobs ORDER BY number")
        records = {name: self._record(name, *head) for name, *head in found}
        for number, job, *line in rows(f"SELECT * FROM story WHERE id > {self._last_line} ORDER BY id"):
            self._lines.setdefault(job, []).append(_line(*line))
            self._last_line = number
        effects = rows("SELECT id, job, attempt, n, effect, tries FROM outbox ORDER BY id")
        held = rows("SELECT compute, job, attempt, gpus, node, machine, cpus FROM reservations ORDER BY 2, 3, 5")
        return Sight(
            records,
            self._lines,
            [PendingEffect(row[0], row[1], row[2], row[3], read_effect(row[4]), row[5]) for row in effects],
            [_reservation(*row) for row in held],
            self._quotas(),
        )

    def _quotas(self) -> list[Quota]:
        """Read by the store only where they have changed."""
        rows = self._database.rows(f"SELECT * FROM resources WHERE kind = '{QUOTA}'")
        if self._quotas_seen is None or self._quotas_seen[0] != rows:
            self._quotas_seen = rows, self._eye.quotas()
        return self._quotas_seen[1]

    def _record(self, name: str, version: int, archived: int) -> Record:
        known = self._database.remembered.get(name, version)
        if known is None:
            return self._eye.load(name)
        return known if known.archived == bool(archived) else replace(known, archived=bool(archived))


def _reservation(compute: str, job: str, attempt: int, gpus: str, *slot: Any) -> Reservation:
    node, machine, cpus = slot
    return Reservation(compute, job, attempt, Slot(node, machine, cpus, tuple(json.loads(gpus))))


def _line(*columns: Any) -> JobEvent:
    at, state, reason, sentence, attempt, number, since = columns
    return JobEvent(_time(at), State(state), Reason(reason), json.loads(sentence), attempt, number, _time(since))


def _time(text: str | None) -> Any:
    return text and datetime.fromisoformat(text).replace(tzinfo=UTC)


def in_database(place: str | Path) -> Callable[[], Backing]:
    """What empties a database and gives it, over and over. Raises RefusedError when there are jobs in it at first."""
    with closing(make_store(place)) as store:
        if store.jobs(JobFilter(is_archived=None, limit=1)):
            fix = "Name an empty one: a simulation throws away what it finds."
            raise RefusedError("there are jobs in this database", where=str(place), fix=fix)

    def emptied() -> Backing:
        _clear(place)
        return Backing(lambda rules: make_store(place, rules))

    return emptied


def _clear(place: str | Path) -> None:
    """Takes every row out of every table."""
    with closing(Database(parse_url(place))) as database, database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
