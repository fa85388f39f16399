"""The `Store` port: each call is one transaction, made of the pieces in the modules beside this one."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, insert, select, update

from drumbeat.core.fair_share import HeldSlots, PastUse
from drumbeat.core.life.events import StoryEntry
from drumbeat.core.quotas import Quota
from drumbeat.ports import (
    LEASE_TIMEOUT,
    Change,
    ExperimentUse,
    Head,
    History,
    JobFilter,
    Letter,
    LiveServer,
    Message,
    Ownership,
    PendingEffect,
    PersonToken,
    Record,
    Removal,
    Reservation,
    Resource,
    Submission,
    Use,
)  # fmt: skip
from drumbeat.protocol.api.requests import JobRequest
from drumbeat.protocol.errors import ConflictError
from drumbeat.protocol.states import State
from drumbeat.stores.sql import (
    inbox,
    job_histories,
    jobs,
    leases,
    outbox,
    people,
    removals,
    resources,
    slots,
    usage,
)
from drumbeat.stores.sql.database import Database, parse_url
from drumbeat.stores.sql.schema import facts, settings
from drumbeat.stores.sql.upgrade import upgrade

T = TypeVar("T")


def make_store(
    place: str | Path, *, monotonic: Callable[[], float] = time.monotonic, lease_timeout: timedelta = LEASE_TIMEOUT
) -> SqlStore:
    """The store at a URL, or in an SQLite file at a path, its tables made or brought up to date.

    lease_timeout: how long a server may be silent, by `monotonic`, before `claim` replaces it; several times the time
    between beats. Raises RefusedError, StorageError, VersionError.
    """
    database = Database(parse_url(place))
    try:
        upgrade(database)
    except BaseException:
        database.close()
        raise
    return SqlStore(database, leases.Watch(monotonic, lease_timeout))


class SqlStore:
    """The `Store` port over a database. Safe from any thread; several processes may be over one database."""

    def __init__(self, database: Database, watch: leases.Watch) -> None:
        self._database = database
        self._watch = watch
        self._remembered = jobs.Remembered()

    # --- leases ---
    def lease(self, ownership: Ownership, *, address: str = "") -> int:
        with self._database.write() as connection:
            return leases.new_lease(connection, ownership, address)

    def leave(self, token: int) -> None:
        with self._database.write() as connection:
            leases.leave(connection, token)

    def live_servers(self) -> list[LiveServer]:
        with self._database.read() as connection:
            return leases.live(connection)

    def show_doors(self, token: int, doors: Mapping[str, tuple[str, ...]]) -> None:
        with self._database.write() as connection:
            leases.show_doors(connection, token, doors)

    def beat(self, token: int) -> None:
        with self._database.write() as connection:
            leases.beat(connection, token)

    def claim(self, token: int) -> list[str]:
        with self._database.read() as connection:
            beats = leases.beats_of_others(connection, token)
        silent = self._watch.silent(beats)
        if not silent:
            return []
        with self._database.write() as connection:
            return leases.replace_servers(connection, token, silent)

    # --- writing jobs ---
    def submit(self, token: int, submission: Submission) -> tuple[Record, bool]:
        try:
            with self._database.write() as connection:
                leases.require_live(connection, token)
                found = jobs.by_key(connection, submission.key, self._remembered)
                record = found or jobs.add(connection, token, submission)
        except ConflictError:
            # Where writers run side by side, the same key may have come in between: then that job is the answer.
            if found := self.submitted(submission.key):
                return found, False
            raise
        self._remembered.put([record])
        return record, found is None

    def submitted(self, key: str) -> Record | None:
        with self._database.read() as connection:
            return jobs.by_key(connection, key, self._remembered)

    def request(self, name: str) -> JobRequest:
        with self._database.read() as connection:
            return jobs.request(connection, name)

    def commit(self, token: int, changes: Sequence[Change]) -> None:
        with self._database.write() as connection:
            leases.require_live(connection, token)
            # In order of names, so that two writers never wait for each other in a ring.
            for change in sorted(changes, key=lambda one: one.job.name):
                jobs.rewrite(connection, token, change)
            jobs.add_story(connection, [(change.job.name, entry) for change in changes for entry in change.story])
            outbox.remove(connection, [one for change in changes for one in change.done])
            inbox.clear(connection, [change.job for change in changes if change.job.state.is_terminal])
            for change in changes:
                outbox.add(connection, change)
            slots.rebook(connection, changes)
        self._remember(token, changes)

    def _remember(self, token: int, changes: Sequence[Change]) -> None:
        known = [(self._remembered.get(change.job.name, change.version), change) for change in changes]
        self._remembered.put(
            replace(record, job=change.job, version=change.version + 1, lease=token)
            for record, change in known
            if record is not None
        )

    def archive(self, name: str, *, is_archived: bool) -> None:
        with self._database.write() as connection:
            jobs.archive(connection, name, is_archived=is_archived)

    def delete_job(self, token: int, name: str, note: str = "") -> None:
        with self._database.write() as connection:
            leases.require_live(connection, token)
            removals.delete_job(connection, name, note)

    def removals(self, *, finished: bool = False) -> dict[str, str]:
        with self._database.read() as connection:
            return removals.notes(connection, finished=finished)

    @contextmanager
    def removing(self, name: str) -> Generator[Removal | None]:
        with self._database.write() as connection:
            yield removals.hold(connection, name)

    def removed(self, name: str, version: int) -> None:
        with self._database.write() as connection:
            removals.finish(connection, name, version)

    # --- reading jobs ---
    def load(self, name: str) -> Record:
        with self._database.read() as connection:
            return jobs.load(connection, name, self._remembered)

    def unfinished(self) -> list[Record]:
        with self._database.read() as connection:
            return jobs.unfinished(connection, self._remembered)

    def heads(self) -> list[Head]:
        with self._database.read() as connection:
            return jobs.heads(connection)

    def experiments(self) -> list[ExperimentUse]:
        with self._database.read() as connection:
            return jobs.experiments(connection)

    def jobs(self, chosen: JobFilter) -> list[Record]:
        with self._database.read() as connection:
            return jobs.page(connection, chosen, self._remembered)

    def count_jobs(self, chosen: JobFilter) -> dict[State, int]:
        with self._database.read() as connection:
            return jobs.count(connection, chosen)

    def story(self, name: str) -> list[StoryEntry]:
        with self._database.read() as connection:
            return jobs.read_story(connection, name)

    def histories(self, names: Sequence[str] = (), since: datetime | None = None) -> list[History]:
        with self._database.read() as connection:
            return job_histories.read(connection, names, since)

    # --- outbox, inbox, slots ---
    def outbox(self, token: int | None = None) -> list[PendingEffect]:
        with self._database.read() as connection:
            return outbox.pending(connection, token)

    def tried(self, effect: int) -> None:
        with self._database.write() as connection:
            outbox.count_try(connection, effect)

    def done(self, effect: int, *, release: tuple[str, int] | None = None, at: datetime | None = None) -> None:
        with self._database.write() as connection:
            outbox.remove(connection, [effect])
            if release and at:
                usage.charge(connection, *release, at)
            if release:
                slots.give_back(connection, *release)

    def post(self, job: str, message: Message) -> None:
        with self._database.write() as connection:
            inbox.post(connection, job, message, self._remembered)

    def inbox(self, token: int) -> list[Letter]:
        with self._database.read() as connection:
            return inbox.letters(connection, token)

    def heard(self, letters: Iterable[int]) -> None:
        with self._database.write() as connection:
            inbox.remove(connection, letters)

    def reservations(self, compute: str) -> list[Reservation]:
        with self._database.read() as connection:
            return slots.reserved(connection, compute)

    def booked(self, compute: str) -> int:
        with self._database.read() as connection:
            return slots.booked(connection, compute)

    # --- settings ---
    def agreed(self, name: str, value: str) -> str:
        with suppress(ConflictError), self._database.write() as connection:
            if _fact(connection, name) is None:
                connection.execute(insert(facts).values(name=name, value=value))
        with self._database.read() as connection:
            return _fact(connection, name) or value

    def setting(self, name: str) -> str:
        with self._database.read() as connection:
            return connection.execute(select(settings.c.value).where(settings.c.name == name)).scalar() or ""

    def set_setting(self, name: str, value: str) -> None:
        with self._database.write() as connection:
            if connection.execute(update(settings).where(settings.c.name == name).values(value=value)).rowcount == 0:
                connection.execute(insert(settings).values(name=name, value=value))

    # --- people ---
    def tokens(self) -> list[PersonToken]:
        with self._database.read() as connection:
            return people.all_tokens(connection)

    def token(self, digest: str) -> PersonToken | None:
        with self._database.read() as connection:
            return people.by_digest(connection, digest)

    def add_token(self, token: PersonToken) -> None:
        with self._database.write() as connection:
            people.add(connection, token)

    def remove_token(self, person: str) -> None:
        with self._database.write() as connection:
            people.remove(connection, person)

    def quotas(self) -> list[Quota]:
        with self._database.read() as connection:
            return usage.all_quotas(connection)

    def set_quota(self, quota: Quota) -> None:
        with self._database.write() as connection:
            usage.set_quota(connection, quota)
            slots.count_in_all(connection)

    def held_slots(self) -> list[HeldSlots]:
        with self._database.read() as connection:
            return usage.held_slots(connection)

    def past_use(self) -> list[PastUse]:
        with self._database.read() as connection:
            return usage.all_past_use(connection)

    # --- resources ---
    def resources(self, kind: str, name: str | None = None) -> list[Resource]:
        with self._database.read() as connection:
            return resources.versions(connection, kind, name)

    def resource(self, kind: str, name: str, version: str = "") -> Resource:
        with self._database.read() as connection:
            return resources.one(connection, kind, name, version)

    def add_version(self, resource: Resource) -> tuple[Resource, bool]:
        return self._write_again(lambda connection: resources.add(connection, resource))

    def put_resource(self, resource: Resource) -> bool:
        return self._write_again(lambda connection: resources.put(connection, resource))

    def _write_again(self, write: Callable[[Connection], T]) -> T:
        try:
            with self._database.write() as connection:
                return write(connection)
        except ConflictError:
            # Where writers run side by side, another one may have inserted the same row in between.
            with self._database.write() as connection:
                return write(connection)

    def remove_resource(self, kind: str, name: str, version: str = "") -> None:
        with self._database.write() as connection:
            resources.remove(connection, kind, name, version)

    def users(self, kind: str, name: str, version: str) -> list[tuple[str, str]]:
        with self._database.read() as connection:
            return resources.users(connection, kind, name, version)

    def uses(self, job: str) -> list[Use]:
        with self._database.read() as connection:
            return resources.uses(connection, job)

    def close(self) -> None:
        self._database.close()


def _fact(connection: Connection, name: str) -> str | None:
    return connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar()
